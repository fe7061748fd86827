# The command of HBase 2.6's shell, for the shell of 2.4, which does not have it.
module Shell
  module Commands
    # Allows or forbids changes of replication peers, and prints what was before.
    class PeerModificationSwitch < Command
      def help
        'Allow or forbid changes of replication peers. The second argument says whether to wait for those under way.'
      end

      def command(allow, waits = false)
        before = admin.instance_variable_get(:@admin).replicationPeerModificationSwitch(allow, waits)
        formatter.row(["Previous peer modification state : #{before}"])
        before
      end
    end
  end
end
