# The command of HBase 2.6's shell, for the shell of 2.4, which does not have it.
module Shell
  module Commands
    # Lists servers that hbase:meta names and that the master does not know.
    class ListUnknownservers < Command
      def help
        'List the servers that hbase:meta names and that the master does not know.'
      end

      def command
        servers = admin.instance_variable_get(:@admin).listUnknownServers
        formatter.header(['SERVERNAME'])
        servers.each { |server| formatter.row([server.toString]) }
        formatter.footer(servers.size)
      end
    end
  end
end
