# frozen_string_literal: true

module Jobs
  class Busy < StandardError; end

  class Plain < ApplicationJob
    def perform(*args, **named)
      puts '{"id": 1, "outcome": "failed"}' # is a line of the log, not a reply
      note("#{args.inspect} #{named.inspect} #{executions} #{queue_name} #{I18n.locale} #{Time.zone.name} #{Current.customer.inspect}")
      Current.customer = "left behind"
      I18n.locale = :de
    end
  end

  class Letter < ApplicationJob
    discard_on(ActiveJob::DeserializationError) { |job, _| job.note("the order is gone") }
    def perform(order, text = "") = order.letters.create!(text: text) && note("#{order.class} #{order.number} #{text.size}")
  end

  class Retried < ApplicationJob
    retry_on(Busy, wait: 1.second, attempts: 3, jitter: 0, priority: 7) { |job, error| job.note("gives up after #{job.executions}: #{error.message}") }
    def perform(succeeds: 9) = note("execution #{executions} #{exception_executions.values}") && executions < succeeds && raise(Busy, "try later")
  end

  class Unretried < ApplicationJob
    retry_on(Busy, wait: 1.second, attempts: 2, jitter: 0)
    def perform = note("execution #{executions}") && raise(Busy, "to the end")
  end

  class Discarded < ApplicationJob
    discard_on(ArgumentError)
    after_discard { |job, error| job.note("after_discard #{error.class}") } if respond_to?(:after_discard)
    def perform = note("execution #{executions}") && raise(ArgumentError)
  end

  class Rescued < ApplicationJob
    rescue_from(Busy) { executions < 2 ? retry_job(wait: 1.second, queue: "low-prio") : note("rescued") }
    def perform = note("execution #{executions} #{queue_name}") && raise(Busy)
  end

  class Hooked < ApplicationJob
    before_enqueue { |job| job.note("before enqueue") && job.arguments.first == "never" && throw(:abort) }
    after_enqueue { |job| job.note("after enqueue") }
    around_perform { |job, run| job.note("before") && run.call && job.note("after") }
    def perform(word) = note(word.inspect)
  end

  class Chain < ApplicationJob
    queue_as { arguments.first.even? ? :default : :"low-prio" }
    def perform(left) = note("#{left} #{queue_name}") && left.positive? && Chain.perform_later(left - 1)
  end

  class Broken < ApplicationJob
    def perform = note("execution #{executions}") && raise("nobody rescues this")
  end

  # Dies after its retry was added, and so adds it twice.
  class Killed < ApplicationJob
    rescue_from(Busy) { retry_job(wait: 0.1) && Trace.where(scenario: "killed").one? && Process.kill(:KILL, Process.pid) }
    def perform = note("execution #{executions} of #{provider_job_id.class}") && executions < 2 && raise(Busy)
  end

  class LeavesOpen < ApplicationJob
    def perform = ActiveRecord::Base.connection.begin_transaction(joinable: false) && note("lost")
  end

  class Ordered < ApplicationJob
    def perform(name) = note("#{name} #{priority.inspect}")
  end

  class Waiting < Ordered; end

  # Ships an order: once, however often it runs.
  class Ship < ApplicationJob
    def perform(number, seconds = 0)
      sleep seconds
      Order.create!(number: number, revision: Rails.configuration.x.revision)
    rescue ActiveRecord::RecordNotUnique
      nil
    end
  end

  # The job of robust.py. That of others.py, which sets SPAN, takes 50 to 300 ms instead.
  class Steady < ApplicationJob
    REVISION = ENV["REVISION"] && File.read(ENV["REVISION"])
    LEAK = []

    def perform(number)
      say("#{number} begins #{executions}")
      if ENV["SPAN"]
        sleep 0.05 + number * 7919 % 251 / 1000.0
      else
        sleep 0.01
        LEAK << "x" * (1 << 20)
        note(number.to_s)
      end
      say("#{number} ends #{executions}")
    end

    def say(text) = File.write(ENV["STEADY"], "#{text} #{Process.pid} #{REVISION} #{Time.now.to_f}\n", mode: "a")
  end

  class Nothing < ApplicationJob
    def perform(*) = nil
  end
end
