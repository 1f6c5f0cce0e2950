# frozen_string_literal: true

# ruby hipq_test.rb, with the program hipq in HIPQ_TEST_HIPQ, and perhaps a MariaDB or MySQL in HIPQ_TEST_MYSQL_DSN. The process is in another time zone than the database.
ENV["TZ"] = "Pacific/Auckland"
require_relative "databases"
require "hipq"
require "minitest/autorun"
require "tmpdir"

PROGRAM = ENV.fetch("HIPQ_TEST_HIPQ")

CONFIG = <<~YAML
  name: shop
  DATABASE
  worker: {concurrency: 4, grace: 5s}
  retry: {attempts: 2, delay: 1ms, jitter: 0}
  timeout: 30s
  queues:
    - name: emails
      job_types: [TYPES]
    - name: letters
      job_types:
        - {name: ask, async: true, handler: {exec: ["true"]}}
        - {name: bad, retry: {attempts: 1}, handler: {exec: ["false"]}}
YAML
TYPES = %w[echo prints progress gives_up busy waits raises exits not_json leaves_open notes loses slow unheard].freeze

module Cases
  def self.included(test) = test.extend(Place)

  # One folder and database for all tests of a class.
  module Place
    def place
      @place ||= Dir.mktmpdir.tap do |dir|
        Minitest.after_run { FileUtils.rm_rf(dir) }
        @database = "ruby_#{Process.pid}_#{self::DATABASE[/\w+/]}"
        worker = "{stream: [ruby, #{File.expand_path("worker.rb", __dir__)}], env: [DATABASE, DATABASE_NAME, HIPQ_TEST_MYSQL_DSN], processes: 1, start_timeout: 60s}"
        types = [*TYPES.map { |type| "{name: #{type}, handler: #{worker}}" }, "{name: too_long, timeout: 1s, retry: {attempts: 1}, handler: #{worker}}"].join(", ")
        dsn = ""
        unless self::DATABASE.include?("sqlite3")
          Mysql2::Client.new(Databases.server).query("CREATE DATABASE #{@database} CHARACTER SET utf8mb4")
          Minitest.after_run { Mysql2::Client.new(Databases.server).query("DROP DATABASE #{@database}") }
          dsn = "database: {driver: mysql, dsn: '#{ENV["HIPQ_TEST_MYSQL_DSN"]}#{@database}'}"
        end
        File.write("#{dir}/hipq.yaml", CONFIG.sub("DATABASE", dsn).sub("TYPES", types))
        Dir.chdir(dir) { system(PROGRAM, "init", out: File::NULL, exception: true) }
      end
      ENV["DATABASE"], ENV["DATABASE_NAME"] = self::DATABASE, @database
      @place
    end
  end

  def setup
    @back = Dir.pwd
    Dir.chdir(self.class.place)
    FileUtils.rm_f(%w[released started ended])
    @db = Databases.open(self.class::DATABASE)
    Databases.run(@db, "SET time_zone = '+09:00'") if mysql?
    Databases.run(@db, "CREATE TABLE IF NOT EXISTS notes (text VARCHAR(255))")
    %w[shop_emails shop_letters notes].each { |table| Databases.run(@db, "DELETE FROM #{table}") }
    @client = client
  end

  def teardown
    @db.respond_to?(:adapter_name) ? ActiveRecord::Base.remove_connection : @db.close
    Dir.chdir(@back)
  end

  def client(db = @db) = Hipq::Client.new(db, "shop", command: PROGRAM, config: "hipq.yaml")

  def mysql? = self.class::DATABASE.include?("mysql2")

  def hipq(*arguments) = Open3.capture3(PROGRAM, *arguments).then { |out, err, status| status.success? ? out.force_encoding(Encoding::UTF_8) : raise("#{arguments}: #{out}#{err}") }

  def jobs(queue = "emails") = hipq("jobs", queue, "--json", "--limit=0").lines.map { |line| JSON.parse(line) }.sort_by { |job| job["id"] }

  def states(queue, id) = hipq("activity", "--queue", queue, "--job", id.to_s, "--json").lines.map { |line| JSON.parse(line)["state"] }

  def count(table) = @client.send(:query, "SELECT COUNT(*) AS n FROM #{table}")[0][:n].to_i

  def transaction
    return @db.transaction { yield } if @db.respond_to?(:adapter_name)

    Databases.run(@db, "BEGIN")
    yield
    Databases.run(@db, "COMMIT")
  rescue StandardError
    Databases.run(@db, "ROLLBACK") unless @db.respond_to?(:adapter_name)
    raise
  end

  def test_push
    at = Time.new(2031, 7, 1, 12, 0, Rational("0.25"), "+12:00")
    data = { "text" => "it's \\ \"Ünï\" 日本 🦊 \u0000", "list" => [1, nil, true] }
    id = @client.push(:emails, :echo, data, key: "order-4711'\\", at: at, priority: 5, timeout: 20, weight: 3, windows: ["mon-fri 09:00-17:30"], shard_key: "ann")
    job = jobs[0]
    assert_equal([id, "echo", "order-4711'\\", data, 5], job.values_at("id", "job_type", "job_key", "job_data", "priority"))
    assert_equal(Time.utc(2031, 7, 1, 0, 0, Rational("0.25")), Time.parse(job["scheduled_run_time"]))
    row = @client.send(:query, "SELECT timeout, throttle_factor, time_windows, shard_key FROM shop_emails")[0]
    assert_equal([20, 3, '["mon-fri 09:00-17:30"]', "ann"], row.values)
  end

  def test_defaults_are_left_to_the_database
    @client.push("emails", "echo")
    row = @client.send(:query, "SELECT job_data, job_key, timeout, priority, throttle_factor, time_windows FROM shop_emails")[0]
    assert_equal(["NONE", nil, nil, nil, nil], row.values_at(:job_data, :timeout, :priority, :throttle_factor, :time_windows))
    assert_operator(row[:job_key].size, :>=, 32)
    assert_in_delta(Time.now, Time.parse(jobs[0]["scheduled_run_time"]), 5)
  end

  def test_in_is_by_the_databases_clock
    @client.push("emails", "echo", in: 300.5)
    assert_in_delta(Time.now + 300.5, Time.parse(jobs[0]["scheduled_run_time"]), 5)
  end

  def test_texts
    @client.push("emails", "echo", "a text")
    @client.push("emails", "echo", "a text", raw: true)
    @client.push("emails", "echo", "Zoë".encode("ISO-8859-1"))
    @client.push("emails", "echo", "Zoë".dup.force_encoding("US-ASCII"), raw: true) # as cron's programs read texts
    assert_equal(['"a text"', "a text", '"Zoë"', "Zoë"], @client.send(:query, "SELECT job_data FROM shop_emails ORDER BY id").map { |row| row[:job_data] })
    assert_raises(JSON::GeneratorError) { @client.push("emails", "echo", Float::NAN) }
    assert_raises(StandardError) { @client.push("emails", "echo", "bad \xff") }
    assert_raises(ArgumentError) { @client.push("emails", "echo", "bad \xff", raw: true) }
  end

  def test_wrong_options
    [{ at: "2031-01-01 12:00" }, { at: Date.new(2031) }, { in: -1 }, { priority: 2**31 }, { timeout: 0 }, { weight: -1 }, { key: "" }, { priority: "high" }].each do |options|
      assert_raises(ArgumentError, options.inspect) { @client.push("emails", "echo", **options) }
    end
    assert_raises(KeyError) { @client.push("emails", "echo", prio: 1) }
    assert_raises(ArgumentError) { @client.push("emails; DROP", "echo") }
    assert_raises(ArgumentError) { @client.push("emails", "") }
    assert_equal(0, count("shop_emails"))
  end

  def test_the_table_refuses
    Databases.run(@db, "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'") if mysql? # not strict
    assert_raises(StandardError) { @client.push("emails", "x" * 300) }
    assert_raises(StandardError) { @client.push("emails", "echo", key: "x" * 300) }
    assert_raises(StandardError) { @client.push("emails", "echo", "x" * 1_100_000) }
    @client.push("emails", "echo", "it's \\ 🦊")
    assert_equal(["it's \\ 🦊"], jobs.map { |job| JSON.parse(job["job_data"]) })
  end

  def test_duplicates
    id = @client.push("emails", "echo", 1, key: "order-4711")
    error = assert_raises(Hipq::DuplicateJob) { @client.push("emails", "echo", 2, key: "order-4711") }
    assert_equal(%w[emails echo order-4711], [error.queue, error.type, error.key])
    error = assert_raises(Hipq::DuplicateJob) { @client.push_many("emails", [{ type: "echo", key: "a" }, { type: "echo", key: "order-4711" }]) }
    assert_equal(["emails", nil, nil], [error.queue, error.type, error.key])
    assert_equal(id, @client.push("emails", "echo", 2, key: "order-4711", on_duplicate: :ignore, in: 30, windows: []))
    other = @client.push("emails", "echo", 2, key: "order-4712", on_duplicate: :ignore, in: 30, priority: 7)
    assert_operator(other, :>, id)
    assert_equal([["1", id], ["2", other]], jobs.map { |job| job.values_at("job_data", "id") })
    assert_raises(ArgumentError) { @client.push("emails", "echo", key: "order-4711", on_duplicate: :skip) } unless mysql?
  end

  def test_replace
    return assert_raises(ArgumentError) { @client.push("emails", "echo", key: "k", on_duplicate: :replace) } unless mysql?

    @client.push("emails", "echo", 1, key: "order-4711")
    id = @client.push("emails", "echo", 2, key: "order-4711", on_duplicate: :replace)
    live = jobs.reject { |job| job["state"] == "final" }
    assert_equal([[id, "2"]], live.map { |job| job.values_at("id", "job_data") })
  end

  def test_in_the_callers_transaction
    transaction { @client.push("emails", "echo", 1) && @client.push_many("emails", [{ type: "echo", data: 2 }, { type: "echo", data: 3 }]) }
    assert_raises(RuntimeError) { transaction { @client.push("emails", "echo", 4) && raise("no") } }
    assert_equal(%w[1 2 3], jobs.map { |job| job["job_data"] })
  end

  def test_push_many
    list = Array.new(1_200) { |i| { type: "echo", data: { "n" => i }, **(i % 400 == 7 ? { key: "k#{i}", in: 60 } : {}) } }
    assert_equal(1_200, @client.push_many("emails", list))
    assert_equal((0...1_200).to_a, jobs.map { |job| job["job_data"]["n"] })
    assert_equal(0, @client.push_many("emails", []))
    assert_equal(6, @client.push_many("letters", Array.new(6) { { type: "ask", data: "x" * 1_000_000, raw: true } }))
  end

  def test_reads_and_changes
    at = Time.utc(2031, 7, 1)
    id = @client.push("emails", "echo", { "n" => 1 }, key: "order-4711", at: at)
    job = @client.get("emails", "echo", "order-4711")
    assert_equal([id, "echo", "order-4711", '{"n":1}', "initial", at], job.values_at(:id, :job_type, :job_key, :job_data, :state, :scheduled_run_time))
    assert_equal(job, @client.get("emails", id))
    assert_nil(@client.get("emails", "echo", "order-4712"))
    assert_nil(@client.get("emails", 4_711_000))
    assert_equal("initial", @client.reschedule("emails", id, at: at + 60))
    assert_equal(at + 60, @client.get("emails", id)[:scheduled_run_time])
    @client.reschedule("emails", "echo", "order-4711", in: 60)
    assert_in_delta(Time.now + 60, @client.get("emails", id)[:scheduled_run_time], 5)
    assert_equal("final", @client.cancel("emails", "echo", "order-4711"))
    assert_equal("cancelled", @client.get("emails", "echo", "order-4711")[:error])
    assert_raises(Hipq::JobNotFound) { @client.cancel("emails", "echo", "order-4713", running: true) }
    assert_raises(Hipq::Refused) { @client.reschedule("emails", id, in: 60) }
  end

  def test_retry_dismiss_answer
    ask = @client.push("letters", "ask", key: "a")
    %w[b e f].each { |key| @client.push("letters", "ask", key: key) }
    bad = @client.push("letters", "bad", key: "c")
    also = @client.push("letters", "bad", key: "d")
    hipq("work") rescue nil # a failed job is mailed
    assert_raises(Hipq::JobNotFound) { @client.answer("letters", "ask", "z", "finished") }
    assert_equal("final", @client.answer("letters", "ask", "a", "finished", { "receipt" => 17 }))
    assert_equal([ask, '{"receipt":17}'], @client.get("letters", "ask", "a").values_at(:id, :result))
    assert_equal("final", @client.answer("letters", "ask", "b", "failed", error: "no such customer"))
    assert_equal("no such customer", @client.get("letters", "ask", "b")[:error])
    assert_equal("retry", @client.answer("letters", "ask", "e", "release", retry_after: 60.5))
    @client.answer("letters", "ask", "f", "release", retry_after: 3600, count: true)
    { "e" => 60.5, "f" => 3600 }.each do |key, after|
      job = @client.get("letters", "ask", key)
      assert_nil(job[:error])
      assert_in_delta(Time.now + after, job[:scheduled_run_time], 10)
      assert_equal(%w[added starting released], states("letters", job[:id]))
    end
    @client.retry("letters", "bad", "c")
    assert_equal("initial", @client.get("letters", "bad", "c")[:state])
    assert_operator(@client.get("letters", "bad", "c")[:id], :>, bad)
    @client.dismiss("letters", also)
    assert_equal("closed", @client.get("letters", also)[:status])
  end

  def test_stream
    ids = %w[echo prints progress gives_up busy waits raises exits not_json leaves_open notes loses unheard].to_h { |type| [type, @client.push("emails", type, { "type" => type }, key: type)] }
    hipq("work") rescue nil
    done = jobs.to_h { |job| [job["job_type"], job] }
    assert_equal({ "data" => { "type" => "echo" }, "key" => "echo", "attempt" => 1, "interrupts" => 0, "timeout" => 30 }, done["echo"]["result"])
    assert_equal("done", done["prints"]["result"])
    assert_includes([nil, 40], done["progress"]["progress"]) # nil if the attempt ended before hipq wrote it
    assert_equal([1, "no such customer"], done["gives_up"].values_at("attempt", "error"))
    assert_equal([2, "free"], done["busy"].values_at("attempt", "result"))
    assert_equal(%w[added starting released starting finished], states("emails", ids["waits"]))
    assert_equal([2, "RuntimeError: a bug \uFFFD"], done["raises"].values_at("attempt", "error"))
    assert_equal([2, "SystemExit: exit"], done["exits"].values_at("attempt", "error"))
    assert_match(/GeneratorError/, done["not_json"]["error"])
    assert_equal("the job left a transaction open", done["leaves_open"]["error"])
    assert_equal({ "other" => "unheard" }, done["unheard"]["result"])
    assert_equal(["notes"], @client.send(:query, "SELECT text FROM notes").map { |row| row[:text] }.uniq)
    assert_equal([2, "found"], done["loses"].values_at("attempt", "result")) if self.class::DATABASE == "mysql2"
    assert_match(/a bug/, hipq("show", "emails", ids["raises"].to_s))
  end

  def test_a_term_lets_the_job_finish
    @client.push("emails", "slow")
    work = spawn(PROGRAM, "work", err: File::NULL)
    sleep 0.05 until File.exist?("started")
    Process.kill(:TERM, work)
    Process.wait(work)
    assert_equal("finished after a TERM", jobs[0]["result"])
  end

  def test_a_timeout_is_an_exception_in_the_job
    @client.push("emails", "too_long")
    hipq("work") rescue nil
    assert_equal("timeout after 1s", jobs[0]["error"])
    assert_equal("SignalException", File.read("ended"))
  end

  def test_mysql_sessions
    return unless mysql?

    user = "app_#{rand(1_000_000_000)}"
    columns = "job_type, job_data, job_key, scheduled_run_time, priority, timeout, throttle_factor, time_windows, shard_key"
    Databases.run(@db, "CREATE USER #{user}@'%' IDENTIFIED BY 'secret'")
    Databases.run(@db, "GRANT INSERT (#{columns}) ON #{ENV["DATABASE_NAME"]}.shop_emails TO #{user}@'%'")
    latin1 = Mysql2::Client.new(**Databases.server, database: ENV["DATABASE_NAME"], username: user, password: "secret", encoding: "latin1")
    latin1.query_options.merge!(as: :array, symbolize_keys: true, cast: false)
    client(latin1).push("emails", "echo", "Zoë 🦊", key: "Zoë 🦊")
    latin1.query("SET NAMES sjis")
    client(latin1).push("emails", "echo", "表'", raw: true, key: "'")
    assert_raises(Hipq::DuplicateJob) { client(latin1).push("emails", "echo", key: "Zoë 🦊") }
    assert_equal([['"Zoë 🦊"', "Zoë 🦊"], ["表'", "'"]], jobs.map { |job| job.values_at("job_data", "job_key") })
  ensure
    Databases.run(@db, "DROP USER IF EXISTS #{user}@'%'") if user
  end
end

Databases.all.each do |database|
  Object.const_set("Test#{database.split(/[:_]/).map(&:capitalize).join}", Class.new(Minitest::Test) { include Cases }).const_set(:DATABASE, database)
end
