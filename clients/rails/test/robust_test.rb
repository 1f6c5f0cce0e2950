# frozen_string_literal: true

# ruby robust_test.rb, with HIPQ_TEST_HIPQ and HIPQ_TEST_MYSQL_DSN as for rails_test.rb: some hundred jobs while something happens. Each job
# ships an order. In the end each order was shipped, and no job failed. On MySQL ../../robust.py does the rest.
require "minitest/autorun"
require_relative "place"

JOBS = Integer(ENV.fetch("JOBS", 300))

module Disturbances
  def setup
    @place = Place.new(self.class::DATABASE)
    @mysql = self.class::DATABASE == "mysql"
    FileUtils.cp_r(File.expand_path("shop", __dir__), "#{@place.dir}/first")
    FileUtils.cp_r(File.expand_path("shop", __dir__), "#{@place.dir}/second")
    %w[first second].each { |revision| File.write("#{@place.dir}/#{revision}/REVISION", revision) }
    File.symlink("first", "#{@place.dir}/current")
    @place.init(attempts: 10, dir: "#{@place.dir}/current", run_for: "20s")
    @place.app("ActiveJob::Base.queue_adapter.enqueue_all(Array.new(#{JOBS}) { |i| Jobs::Ship.new(i, 0.03) })")
  end

  def teardown = @place.clear

  # Runs all jobs, and the block each time another part of them is done.
  def during(times)
    work = nil
    ended = false
    worker = Thread.new { (work = Process.spawn(@place.environment, Place::HIPQ, "work", chdir: @place.dir, err: "#{@place.dir}/log", out: "#{@place.dir}/log")) && Process.wait(work) until ended }
    (1..times).each do |i|
      wait_for(JOBS * i / (times + 2))
      yield work
    end
    wait_for(JOBS, live: true)
    ended = true
    worker.join
  end

  def wait_for(count, live: false)
    limit = Time.now + 200
    until live ? number("app_default WHERE live = 1").zero? : number("app_default WHERE status = 'finished'") >= count
      flunk("#{number("app_default WHERE status = 'finished'")} jobs after 200 s") if Time.now > limit
      sleep 0.2
    end
  end

  def number(from) = @place.sql("SELECT COUNT(*) AS n FROM #{from}").then { |rows| rows.is_a?(String) ? rows.to_i : rows.first["n"] }

  # The pids of this place's programs.
  def programs
    Dir["/proc/[0-9]*"].select do |process|
      File.read("#{process}/cmdline").include?("hipq:stream") && File.read("#{process}/environ").include?(@place.url)
    rescue SystemCallError
      false
    end.map { |process| process[/\d+/].to_i }
  end

  def check(revisions = ["first"])
    jobs = @place.jobs
    assert_equal(JOBS, number("orders"))
    assert_equal([["final", nil]], jobs.map { |job| job.values_at("state", "error") }.uniq)
    assert_equal(revisions, @place.app("print Order.distinct.pluck(:revision).sort.join(' ')").split)
    puts "#{self.class} #{name}: #{JOBS} jobs, attempts #{jobs.map { |job| job["attempt"] }.tally.sort}"
  end

  def test_terms
    return if @mysql

    during(4) { |work| Process.kill(:TERM, work) }
    check
  end

  def test_killed_programs
    return if @mysql

    during(4) { programs.each { |pid| Process.kill(:KILL, pid) } }
    check
  end

  def test_killed_workers
    return if @mysql

    during(2) { |work| Process.kill(:KILL, work) }
    check
  end

  def test_killed_connections
    return unless @mysql

    during(4) do
      ids = @place.sql("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()").map { |row| row["id"] }
      ids.each { |id| @place.sql("KILL #{id}") rescue nil }
    end
    check
  end

  def test_a_deployment
    return if @mysql

    during(1) do # restart_on sees it
      File.symlink("second", "#{@place.dir}/next")
      File.rename("#{@place.dir}/next", "#{@place.dir}/current")
    end
    check(%w[first second])
  end
end

Place.databases.each do |database|
  Object.const_set("Test#{database.capitalize}", Class.new(Minitest::Test) { include Disturbances }).const_set(:DATABASE, database)
end
