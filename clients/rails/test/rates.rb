# frozen_string_literal: true

# ruby rates.rb, with HIPQ_TEST_HIPQ and a durable server in HIPQ_TEST_MYSQL_DSN: jobs per second on hipq and on delayed_job's own table, of an
# empty job, with one and four processes (or as PROCESSES says), from the start of the programs to the last job. Programs of delayed_job
# may deadlock one another; then some of its jobs wait for a retry.
require_relative "place"

JOBS = Integer(ENV.fetch("JOBS", 3000))
DELAYED = "CREATE TABLE delayed_jobs (id INTEGER PRIMARY KEY AUTO_INCREMENT, priority INT NOT NULL DEFAULT 0, attempts INT NOT NULL DEFAULT 0, " \
          "handler TEXT NOT NULL, last_error TEXT, run_at DATETIME, locked_at DATETIME, failed_at DATETIME, locked_by VARCHAR(255), queue VARCHAR(255), " \
          "created_at DATETIME, updated_at DATETIME, KEY delayed_jobs_priority (priority, run_at))"
ENQUEUE = "begin_ = Process.clock_gettime(1); #{JOBS}.times { |i| Jobs::Nothing.perform_later(i) }; print Process.clock_gettime(1) - begin_"

def seconds
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  yield
  Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
end

place = Place.new("mysql")
place.sql(DELAYED)
work = lambda do |adapter, processes, ahead|
  environment = place.environment("ADAPTER" => adapter)
  if adapter == "hipq"
    place.init(processes: processes, ahead: ahead)
    return system(environment, Place::HIPQ, "work", chdir: place.dir)
  end
  worker = "require #{File.expand_path("shop/config/environment", __dir__).inspect}; Delayed::Worker.new(exit_on_complete: true, quiet: true).start"
  Array.new(processes) { Process.spawn(environment, "ruby", "-e", worker) }.each { |pid| Process.wait(pid) }
end

puts "jobs per second of #{JOBS}          enqueue      run"
ENV.fetch("PROCESSES", "1 4").split.map(&:to_i).product(["delayed_job", "hipq", "hipq, 7 ahead"], [1, 2]).each do |processes, way, run|
  adapter = way.split(",").first
  place.init
  took = place.run("ruby", "-e", "require #{File.expand_path("shop/config/environment", __dir__).inspect}\n#{ENQUEUE}", ADAPTER: adapter).to_f
  table = adapter == "hipq" ? "app_default WHERE status = 'submitted'" : "delayed_jobs"
  raise "not enqueued" unless place.sql("SELECT COUNT(*) AS n FROM #{table}").first["n"] == JOBS

  ran = seconds { work.call(adapter, processes, way == adapter ? 0 : 7) }
  left = adapter == "hipq" ? "app_default WHERE live = 1" : "delayed_jobs"
  left = place.sql("SELECT COUNT(*) AS n FROM #{left}").first["n"]
  raise "not done" if adapter == "hipq" && left.positive?

  place.sql("DELETE FROM delayed_jobs")
  puts format("%-14s %d processes, run %d: %8.0f %8.0f%s", way, processes, run, JOBS / took, (JOBS - left) / ran, left.positive? ? ", #{left} left" : "")
end
place.clear
