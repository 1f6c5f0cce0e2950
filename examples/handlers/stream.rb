#!/usr/bin/env ruby
# Counts the words of texts and writes a report for each. handler: {stream: [ruby, stream.rb], env: [PAUSE]}
require "json"

class NoSuchText < StandardError; end

$stdout.sync = true # else answers stay in the buffer

def say(job, what) = puts(JSON.generate({ id: job["id"], token: job["token"] }.merge(what)))

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
          say(job, progress: told = percent, note: "#{words} words") if percent > told
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
  $stdin.each_line do |line| # ends when hipq has no more jobs
    job = JSON.parse(line)
    reply = begin
      { outcome: "finished", result: { words: count(job) } }
    rescue NoSuchText => e
      { outcome: "failed", error: e.message } # a retry won't help
    rescue => e
      warn e.full_message(highlight: false) # the log, kept with the attempt
      { outcome: "retry", error: e.message }
    end
    say(job, reply)
  end
rescue SignalException # raised by SIGTERM, which hipq sends at a job's timeout, and when its worker must end
  abort "told to stop"
end
