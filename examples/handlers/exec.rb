#!/usr/bin/env ruby
# Counts the words of a text and writes a report. handler: {exec: [ruby, exec.rb], env: [PAUSE]}
require "json"

class NoSuchText < StandardError; end

$stdout.sync = true

def say(what) = puts(JSON.generate(what))

def count(job)
  file = job["job_data"].is_a?(Hash) && job["job_data"]["file"]
  report = "report-#{job["id"]}.txt"
  if job["attempt"] > 1 # an earlier attempt was killed or told to stop, at an unknown point
    File.delete(*Dir.glob("report-#{job["id"]}.*.part"))
    return File.read(report).to_i if File.exist?(report) # it had done everything but report it
  end
  raise NoSuchText, "no such text: #{file}" unless file.is_a?(String) && File.file?(file)

  part = "report-#{job["id"]}.#{job["attempt"]}.part"
  size, words, told = File.size(file), 0, 0
  begin
    File.open(part, "wx") do |out|
      File.open(file, "rb") do |text|
        text.each_line do |line|
          words += line.split.size
          sleep ENV.fetch("PAUSE", 0).to_f # simulates slow work
          percent = text.pos * 100 / size
          say(progress: told = percent, note: "#{words} words") if percent > told
        end
      end
      out.puts "#{words} words in #{file}"
    end
    File.rename(part, report) # atomically
  ensure
    File.delete(part) if File.exist?(part)
  end
  words
end

begin
  words = count(JSON.parse($stdin.read))
  say(outcome: "finished", result: { words: words })
rescue NoSuchText => e
  puts e.message
  exit 65 # a retry won't help; any other exception exits with 1, and is retried
rescue SignalException # raised by SIGTERM, which hipq sends at the timeout, and when its worker must end
  say(outcome: "retry", error: "told to stop")
  exit 75
end
