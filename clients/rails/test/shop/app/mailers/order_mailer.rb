# frozen_string_literal: true

class OrderMailer < ActionMailer::Base
  after_action { Trace.note("mailer", message.subject) }

  def thanks(order) = mail(from: "shop@example.org", to: "ann@example.org", subject: "#{I18n.locale}: order #{order.number}", body: "Thank you.")
end
