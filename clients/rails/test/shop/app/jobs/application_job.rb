# frozen_string_literal: true

class ApplicationJob < ActiveJob::Base
  def note(text) = Trace.note(self.class.name.demodulize.underscore, text)
end
