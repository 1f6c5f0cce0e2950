# frozen_string_literal: true

# ruby rails_test.rb, with the program hipq in HIPQ_TEST_HIPQ, and perhaps a MariaDB or MySQL in HIPQ_TEST_MYSQL_DSN.
require "minitest/autorun"
require_relative "place"

# The jobs of the shop by Active Job's own adapters and by hipq, and what only hipq does.
module Cases
  def setup = @place = Place.new(self.class::DATABASE)

  def teardown = @place.clear

  def scenarios(adapter)
    @place.clear_tables
    @place.ruby("scenarios.rb", "ADAPTER" => adapter).lines(chomp: true).grep(/\A\w+: /) # without what jobs print
  end

  def test_as_async_and_inline
    @place.init(attempts: 1, processes: 1, run_for: "12s")
    async, hipq, inline = %w[async hipq inline].map { |adapter| scenarios(adapter) }
    assert_operator(hipq.size, :>=, 34, hipq.join("\n"))
    assert_equal(async, hipq)
    assert_equal(inline.sort, hipq.select { |line| inline.include?(line) }.sort) # inline runs each job within its hooks
  end

  def test_in_the_transaction
    @place.init
    @place.app(<<~RUBY)
      Order.transaction { Order.create!(number: 1); Jobs::Plain.perform_later("lost"); raise ActiveRecord::Rollback }
      Order.transaction { Order.create!(number: 2); Jobs::Plain.perform_later("kept") }
    RUBY
    assert_equal([["kept"]], @place.jobs.map { |job| job["job_data"]["arguments"] })
  end

  def test_columns
    @place.init
    job_id, id = JSON.parse(@place.app(<<~RUBY))
      job = Jobs::Plain.set(wait_until: Time.utc(2031, 7, 1, 12, 0, 0.25), priority: 3).perform_later
      id = job.provider_job_id
      job.enqueue # as Active Job allows
      print [job.job_id, id].to_json
    RUBY
    first, second = @place.jobs
    assert_equal([id, "Jobs::Plain", job_id, 3], first.values_at("id", "job_type", "job_key", "priority"))
    assert_equal("2031-07-01T12:00:00.25Z", first["scheduled_run_time"])
    refute_equal(job_id, second["job_key"])
    assert_equal(job_id, second["job_data"]["job_id"])
  end

  def test_enqueue_all
    @place.init
    @place.app(<<~RUBY)
      jobs = Array.new(700) { |i| Jobs::Nothing.new(i) } + Array.new(5) { |i| Jobs::Nothing.new(i).tap { |job| job.queue_name, job.scheduled_at = "low-prio", Time.now.to_f + 60 } }
      abort unless ActiveJob::Base.queue_adapter.enqueue_all(jobs) == 705
      ActiveJob::Base.queue_adapter.enqueue_all([Jobs::Nothing.new(700), jobs[0]]) # one of them a second time
    RUBY
    assert_equal((0..700).to_a + [0], @place.jobs.map { |job| job["job_data"]["arguments"][0] })
    assert_equal(5, @place.jobs("low_prio").size)
  end

  def test_a_transaction_left_open
    @place.init
    @place.app('Jobs::LeavesOpen.perform_later; Jobs::Ordered.perform_later("next")')
    @place.work
    assert_equal(["next nil"], @place.traces)
    assert_equal([[2, "RuntimeError: the job left a transaction open"], [1, nil]], @place.jobs.map { |job| job.values_at("attempt", "error") })
  end

  def test_a_retry_that_has_ended_is_added_once
    @place.init(delay: "2s") # the retry of the killed job runs before the job does again
    @place.app("Jobs::Killed.perform_later")
    @place.work until @place.jobs.all? { |job| job["state"] == "final" }
    assert_equal([1, 2, 1].map { |n| "execution #{n} of Integer" }, @place.traces)
  end

  def test_init_for_rails
    @place.shop
    environment = { "RAILS_ENV" => "production", "HIPQ_WORKER_LINGER" => "false" }
    said = run_in_shop(environment, Place::HIPQ, "init", "--for", "rails")
    assert_match(/queue_adapter = :hipq/, said)
    run_in_shop(environment, "ruby", "-e", 'require "./config/environment"; Jobs::Ordered.perform_later("as a new user")')
    run_in_shop(environment, Place::HIPQ, "work")
    assert_equal(["as a new user nil"], @place.traces)
  end

  def run_in_shop(environment, *command)
    out, status = Open3.capture2e(environment, *command, chdir: "#{@place.dir}/shop")
    assert(status.success?, out)
    out
  end
end

# What goes through no other SQL on another database.
module More
  def test_priority
    @place.init(processes: 1)
    @place.app('{ "b" => 5, "c" => 7, "a" => 0 }.each { |name, priority| Jobs::Ordered.set(priority: priority).perform_later(name) }; Jobs::Ordered.perform_later("none")')
    @place.work
    assert_equal(["a 0", "none nil", "b 5", "c 7"], @place.traces)
  end

  def test_a_retry_is_added_once
    @place.init(processes: 1) # the killed job runs again before its retry does
    @place.app("Jobs::Killed.perform_later")
    @place.work until @place.jobs.all? { |job| job["state"] == "final" }
    assert_equal(["execution 1 of Integer", "execution 1 of Integer", "execution 2 of Integer"], @place.traces)
  end

  def test_the_way_back
    @place.init(attempts: 1)
    @place.app("Jobs::Broken.perform_later")
    @place.work
    File.write("#{@place.dir}/failed", @place.run(Place::HIPQ, "failures", "--jobs", "--json"))
    @place.app(<<~RUBY)
      Jobs::Broken.queue_adapter = :inline
      File.foreach("failed") { |line| ActiveJob::Base.deserialize(JSON.parse(line)["job_data"]).enqueue rescue nil }
    RUBY
    assert_equal(["execution 1", "execution 1"], @place.traces)
  end

  def test_what_nobody_rescues
    @place.init
    @place.app("Jobs::Broken.perform_later; Jobs::Letter.perform_later(Order.create!(number: 1))")
    @place.work("UNHANDLED" => nil)
    assert_equal([2, "RuntimeError: nobody rescues this"], @place.jobs[0].values_at("attempt", "error"))
    @place.app("Jobs::Broken.perform_later; Jobs::Broken.perform_later")
    @place.work("UNHANDLED" => "1")
    assert_equal([2, 1, 1, 1], @place.jobs.map { |job| job["attempt"] })
  end
end

Place.databases.each do |database|
  cases = database == Place.databases.last ? [Cases, More] : [Cases]
  Object.const_set("Test#{database.capitalize}", Class.new(Minitest::Test) { include(*cases) }).const_set(:DATABASE, database)
end
