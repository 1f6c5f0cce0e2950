# frozen_string_literal: true

require_relative "lib/hipq"

Gem::Specification.new do |spec|
  spec.name = "hipq"
  spec.version = Hipq::VERSION
  spec.summary = "Client for hipq, the durable job queue in MariaDB, MySQL or SQLite"
  spec.authors = ["The hipq authors"]
  spec.license = "MIT"
  spec.homepage = "https://github.com/hipq/hipq"
  spec.required_ruby_version = ">= 3.0"
  spec.files = %w[lib/hipq.rb README.md CHANGELOG.md LICENSE]
  spec.metadata = { "changelog_uri" => "#{spec.homepage}/blob/main/clients/ruby/CHANGELOG.md", "rubygems_mfa_required" => "true" }
end
