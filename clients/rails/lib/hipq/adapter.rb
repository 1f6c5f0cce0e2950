# frozen_string_literal: true

module ActiveJob
  module QueueAdapters
    # Adds Active Job's jobs to hipq's tables on Active Record's connection, and so in the application's own transaction:
    #
    #   config.active_job.queue_adapter = :hipq
    #
    # A job's class is its type in hipq. Its queue is hipq's queue of that name, in small letters and with _ for other characters.
    class HipqAdapter < (defined?(AbstractAdapter) ? AbstractAdapter : Object)
      # settings are those of config.hipq: instance, tables of queues with another name, connection (a function, if hipq's tables are
      # in another database than Active Record's first), and unhandled.
      def initialize(settings = nil)
        super()
        @settings = settings
      end

      # Rails 7.2 asks. A row in the transaction need not wait for its commit.
      def enqueue_after_transaction_commit? = false

      # Rails 8.1 asks, so that a continuation stops at its next step.
      def stopping?(_job = nil) = Hipq::Performer.job&.stopping? || false

      def enqueue(job) = enqueue_at(job, nil)

      def enqueue_at(job, timestamp)
        job.provider_job_id = added(job) || push(job, timestamp, key(job))
      rescue Hipq::DuplicateJob # an earlier attempt has added this retry; else the application enqueues one job twice
        job.provider_job_id = push(job, timestamp, nil) unless retried?(job)
      end

      # perform_all_later of Rails 7.1
      def enqueue_all(jobs)
        jobs.group_by { |job| queue(job) }.each do |queue, group|
          begin
            client.push_many(queue, group.map { |job| { type: job.class.name, data: job.serialize, **options(job, job.scheduled_at, key(job)) } })
          rescue Hipq::DuplicateJob
            group.each { |job| enqueue_at(job, job.scheduled_at) }
          end
          group.each { |job| job.successfully_enqueued = true if job.respond_to?(:successfully_enqueued=) }
        end
        jobs.size
      end

      private

      def settings = @settings || Hipq::Railtie.settings

      def client
        base = ActiveRecord::Base
        connection = settings[:connection]&.call || (base.respond_to?(:lease_connection) ? base.lease_connection : base.connection)
        Hipq::Client.new(connection, settings[:instance], tables: settings[:tables] || {})
      end

      def queue(job) = job.queue_name.downcase.gsub(/[^a-z0-9_]/, "_")

      # The id of the job's retry that an earlier attempt has added. It may have ended since, so that its key is free again.
      def added(job)
        client.get(queue(job), job.class.name, key(job))&.fetch(:id) if retried?(job) && Hipq::Performer.job.attempt > 1
      rescue ActiveRecord::StatementInvalid # the application may not read jobs: only a live one is found, as a duplicate
        nil
      end

      def push(job, timestamp, key) = client.push(queue(job), job.class.name, job.serialize, **options(job, timestamp, key))

      def options(job, timestamp, key) = { key: key, at: timestamp && Time.at(timestamp.to_f.round(6)), priority: job.priority }

      # The key is Active Job's id. The retry of a job that runs has the number of its execution behind it, because the job holds its
      # own key, and because a second attempt of that job, after a crash, must not add the retry again.
      def key(job) = retried?(job) ? "#{job.job_id}/#{job.executions}" : job.job_id

      def retried?(job) = Hipq::Performer.job&.data&.fetch("job_id") == job.job_id
    end
  end
end
