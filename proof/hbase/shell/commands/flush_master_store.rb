# The command of HBase 2.6's shell, for the shell of 2.4, which does not have it.
module Shell
  module Commands
    # Flushes the region in which the master keeps its own state.
    class FlushMasterStore < Command
      def help
        'Flush the region in which the master keeps its own state.'
      end

      def command
        admin.instance_variable_get(:@admin).flushMasterStore
      end
    end
  end
end
