# The command of HBase 2.6's shell, for the shell of 2.4, which does not have it.
module Shell
  module Commands
    # Changes the store file tracker of the tables whose names match, once the user has agreed.
    class ChangeSftAll < Command
      def help
        'Change the store file tracker of all tables whose names match a regular expression.'
      end

      def command(*args)
        raise(ArgumentError, 'Argument length should be two.') unless args.length == 2
        pattern, tracker = args
        names = admin.list(pattern)
        return puts("No tables matched the regex #{pattern}") if names.empty?
        names.each { |name| formatter.row([name]) }
        puts "\nChange the above #{names.size} tables's sft (y/n)?"
        return unless gets.chomp =~ /y.*/i
        client = admin.instance_variable_get(:@admin)
        names.each { |name| client.modifyTableStoreFileTracker(org.apache.hadoop.hbase.TableName.valueOf(name), tracker) }
      end
    end
  end
end
