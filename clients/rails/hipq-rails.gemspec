# frozen_string_literal: true

Gem::Specification.new do |spec|
  spec.name = "hipq-rails"
  spec.version = "0.1.0"
  spec.summary = "Active Job on hipq, the durable job queue in MariaDB, MySQL or SQLite"
  spec.authors = ["The hipq authors"]
  spec.license = "MIT"
  spec.homepage = "https://github.com/hipq/hipq"
  spec.required_ruby_version = ">= 3.0"
  spec.files = Dir["lib/**/*.rb"] + %w[README.md CHANGELOG.md LICENSE]
  spec.add_dependency "activejob", ">= 6.1", "< 9"
  spec.add_dependency "activerecord", ">= 6.1", "< 9"
  spec.add_dependency "hipq", "~> 0.1"
  spec.add_dependency "railties", ">= 6.1", "< 9"
  spec.metadata = { "changelog_uri" => "#{spec.homepage}/blob/main/clients/rails/CHANGELOG.md", "rubygems_mfa_required" => "true" }
end
