# frozen_string_literal: true

module Hipq
  # Runs Active Job's jobs as a function of Hipq.run.
  module Performer
    class << self
      attr_reader :job # the Hipq::Job that this program works on

      def call(job)
        @job = job
        ::Rails.application.executor.wrap do
          begin
            ActiveJob::Base.execute(job.data.merge("provider_job_id" => job.id))
          ensure
            open = roll_back
          end
          raise "the job left a transaction open" if open
        end
        nil # Active Job keeps no results
      rescue ActiveJob::DeserializationError => e # the record is gone
        give_up(e)
      rescue StandardError => e
        # A class that isn't there may come with the next deployment.
        Railtie.settings[:unhandled] == :fail && !e.instance_of?(NameError) ? give_up(e) : raise
      ensure
        @job = nil
      end

      private

      def give_up(error)
        warn error.full_message(highlight: false)
        raise GiveUp, "#{error.class}: #{error.message}"
      end

      # Rolls back what is open in this thread's connections, and says whether something was.
      def roll_back
        pools = ActiveRecord::Base.connection_handler.method(:connection_pool_list)
        pools = pools.arity.zero? ? pools.call : pools.call(ActiveRecord::Base.current_role)
        pools.filter_map(&:active_connection?).map { |connection| Client.new(connection, "any").rollback }.any?
      end
    end
  end
end
