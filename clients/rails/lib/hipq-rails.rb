# frozen_string_literal: true

require "hipq"
require "active_job"
require "hipq/performer"
require "hipq/railtie" if defined?(Rails::Railtie)

ActiveJob::QueueAdapters.autoload :HipqAdapter, File.expand_path("hipq/adapter.rb", __dir__)
