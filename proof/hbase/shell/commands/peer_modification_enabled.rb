# The command of HBase 2.6's shell, for the shell of 2.4, which does not have it.
module Shell
  module Commands
    # Prints whether replication peers may be changed.
    class PeerModificationEnabled < Command
      def help
        'Print whether replication peers may be changed.'
      end

      def command
        is_enabled = admin.instance_variable_get(:@admin).isReplicationPeerModificationEnabled
        formatter.row([is_enabled.to_s])
        is_enabled
      end
    end
  end
end
