# frozen_string_literal: true

# Enqueues the jobs of all scenarios with the adapter that ADAPTER names, waits for them, and prints what they did.
require_relative "shop/config/environment"

def order = @order ||= Order.create!(number: 4711)

NOW = {
  plain: lambda do
    arguments = [1, "Zoë 🦊 it's \\", nil, [true, 1.5], { "a" => :b }]
    at = { at: Time.utc(2031, 7, 1, 12), on: Date.new(2031, 7, 1), span: 3.days }
    I18n.with_locale(:de) { Time.use_zone("Tokyo") { Jobs::Plain.perform_later(*arguments, **at) } }
    Jobs::Plain.perform_later("nothing is left behind")
  end,
  letter: lambda do
    Jobs::Letter.perform_later(order)
    Jobs::Letter.perform_later(order, "x" * 200_000)
    Jobs::Letter.perform_later(Order.new(id: 4_711_999))
  end,
  mailer: lambda do
    OrderMailer.thanks(order).deliver_later
    I18n.with_locale(:de) { OrderMailer.thanks(order).deliver_later }
  end,
  discarded: -> { Jobs::Discarded.perform_later },
  hooked: -> { %w[once never twice].each { |word| Jobs::Hooked.perform_later(word) } },
  ordered: -> { Jobs::Ordered.set(queue: "low-prio", priority: 3).perform_later("a queue of its own") },
  chain: -> { Jobs::Chain.perform_later(3) },
  broken: -> { Jobs::Broken.perform_later }
}.freeze
LATER = {
  waiting: lambda do
    Jobs::Waiting.set(wait: 2.seconds).perform_later("later")
    Jobs::Waiting.set(wait_until: 4.seconds.from_now, priority: 1).perform_later("last")
    Jobs::Waiting.perform_later("now")
  end,
  retried: -> { Jobs::Retried.perform_later },
  unretried: -> { Jobs::Unretried.perform_later },
  rescued: -> { Jobs::Rescued.perform_later }
}.freeze

inline = ENV["ADAPTER"] == "inline"
(inline ? NOW : NOW.merge(LATER)).each_value do |scenario|
  scenario.call
rescue RuntimeError => e # as inline does
  raise unless e.message == "nobody rescues this"
end

case ENV["ADAPTER"]
when "async" # waits until nothing has been traced for five seconds
  count = -1
  count = Trace.count.tap { sleep 5 } until Trace.count == count
when "hipq"
  live = -> { ActiveRecord::Base.connection.select_value("SELECT (SELECT COUNT(*) FROM app_default WHERE live = 1) + (SELECT COUNT(*) FROM app_low_prio WHERE live = 1)") }
  system(ENV.fetch("HIPQ_TEST_HIPQ"), "work", "--linger", err: File::NULL) while live.call.to_i.positive?
end

scenarios = (inline ? NOW : NOW.merge(LATER)).keys.map(&:to_s)
Trace.order(:id).group_by(&:scenario).values_at(*scenarios).each { |traces| traces&.each { |trace| puts "#{trace.scenario}: #{trace.text}" } }
puts "letters: #{order.letters.order(:id).pluck(:text).map(&:size)}"
