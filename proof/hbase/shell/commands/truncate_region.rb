# The command of HBase 2.6's shell, for the shell of 2.4, which does not have it.
module Shell
  module Commands
    # Deletes all rows of a region, given by its name or encoded name.
    class TruncateRegion < Command
      def help
        'Delete all rows of a region, given by its name or its encoded name.'
      end

      def command(region)
        admin.instance_variable_get(:@admin).truncateRegion(region.to_java_bytes)
      end
    end
  end
end
