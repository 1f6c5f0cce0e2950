# frozen_string_literal: true

module Hipq
  # config.hipq, and the stream program bin/rails hipq:stream.
  class Railtie < ::Rails::Railtie
    config.hipq = ActiveSupport::OrderedOptions.new

    # hipq init --for rails writes the instance app.
    def self.settings
      settings = ::Rails.application.config.hipq
      settings.instance ||= "app"
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
