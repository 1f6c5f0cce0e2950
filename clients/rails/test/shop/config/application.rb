# frozen_string_literal: true

# A shop that sends letters. ADAPTER is what runs its jobs: hipq, inline, async or delayed_job. DATABASE_URL is its database.
ENV["RAILS_ENV"] ||= "production"
require "logger"
require "rails"
require "active_record/railtie"
require "active_job/railtie"
require "action_mailer/railtie"
require "hipq-rails"
require "delayed_job_active_record" if ENV["ADAPTER"] == "delayed_job"

module Shop
  class Application < Rails::Application
    config.root = File.expand_path("..", __dir__)
    config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
    config.eager_load = false
    config.secret_key_base = "x" * 64
    config.logger = Logger.new($stderr)
    config.log_level = :error
    config.i18n.available_locales = %i[en de]
    config.action_mailer.delivery_method = :test
    adapter = ENV.fetch("ADAPTER", "hipq").to_sym
    config.active_job.queue_adapter =
      adapter == :async ? ActiveJob::QueueAdapters::AsyncAdapter.new(min_threads: 1, max_threads: 1) : adapter
    config.hipq.unhandled = :fail if ENV["UNHANDLED"]
    config.x.revision = root.join("REVISION").exist? ? root.join("REVISION").read : "first"
  end
end
