# frozen_string_literal: true

# What a job did, in the order in which the jobs of a scenario did it.
class Trace < ActiveRecord::Base
  def self.note(scenario, text) = create!(scenario: scenario, text: text)
end
