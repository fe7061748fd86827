# The command of HBase 2.6's shell, for the shell of 2.4, which does not have it.
module Shell
  module Commands
    # Lists the tables that are disabled.
    class ListDisabledTables < Command
      def help
        'List the tables that are disabled.'
      end

      def command
        names = admin.instance_variable_get(:@admin).listTableNamesByState(false).map(&:getNameAsString)
        formatter.header(['TABLE'])
        names.each { |name| formatter.row([name]) }
        formatter.footer(names.size)
        names
      end
    end
  end
end
