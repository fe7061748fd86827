# The command of HBase 2.6's shell, for the shell of 2.4, which does not have it.
module Shell
  module Commands
    # Changes the store file tracker of a table or of one of its families.
    class ChangeSft < Command
      def help
        'Change the store file tracker of a table, or of one of its families.'
      end

      def command(*args)
        raise(ArgumentError, 'Argument length should be two or three.') unless [2, 3].include?(args.length)
        table = org.apache.hadoop.hbase.TableName.valueOf(args.first)
        client = admin.instance_variable_get(:@admin)
        if args.length == 2
          client.modifyTableStoreFileTracker(table, args.last)
        else
          client.modifyColumnFamilyStoreFileTracker(table, args[1].to_java_bytes, args.last)
        end
      end
    end
  end
end
