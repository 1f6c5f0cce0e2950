# frozen_string_literal: true

module Hipq
  # config.hipq, and the stream program bin/rails hipq:stream.
  class Railtie < ::Rails::Railtie
    config.hipq = ActiveSupport::OrderedOptions.new

    # instance is by default the application's name.
    def self.settings
      settings = ::Rails.application.config.hipq
      settings.instance ||= ::Rails.application.class.module_parent_name&.underscore&.tr("/", "_") || "app"
      settings
    end

    rake_tasks do
      namespace :hipq do
        desc "Run the jobs that hipq work gives to this program"
        task :stream do
          stream = Stream.new({ "*" => Performer }, []) # first, because the application may print while it boots
          Rake::Task["environment"].invoke
          stream.run
        end
      end
    end
  end
end
