# The command of HBase 2.6's shell, for the shell of 2.4, which does not have it.
module Shell
  module Commands
    # Lists the tables that are enabled.
    class ListEnabledTables < Command
      def help
        'List the tables that are enabled.'
      end

      def command
        names = admin.instance_variable_get(:@admin).listTableNamesByState(true).map(&:getNameAsString)
        formatter.header(['TABLE'])
        names.each { |name| formatter.row([name]) }
        formatter.footer(names.size)
        names
      end
    end
  end
end
