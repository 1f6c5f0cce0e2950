# frozen_string_literal: true

require "fileutils"
require "json"
require "mysql2"
require "open3"
require "tmpdir"

# A folder with a database for the shop and hipq.
class Place
  HIPQ = ENV.fetch("HIPQ_TEST_HIPQ")
  TABLES = "orders (id INTEGER PRIMARY KEY AUTO, number INT UNIQUE, revision VARCHAR(40)); " \
           "letters (id INTEGER PRIMARY KEY AUTO, order_id INT, text LONGTEXT); traces (id INTEGER PRIMARY KEY AUTO, scenario VARCHAR(40), text TEXT)"

  # ONLY, which is sqlite or mysql, leaves the other out.
  def self.databases = [*(%w[sqlite] unless ENV["ONLY"] == "mysql"), *(%w[mysql] if ENV["HIPQ_TEST_MYSQL_DSN"] && ENV["ONLY"] != "sqlite")]

  attr_reader :dir

  def initialize(database)
    @dir = Dir.mktmpdir
    @sqlite = database == "sqlite"
    @name = "rails_#{Process.pid}_#{rand(1_000_000_000)}"
    TABLES.split("; ").each { |table| sql("CREATE TABLE #{table.sub("AUTO", @sqlite ? "AUTOINCREMENT" : "AUTO_INCREMENT")}") }
  end

  def clear
    sql("DROP DATABASE #{@name}") unless @sqlite
    FileUtils.rm_rf(@dir)
  end

  def clear_tables = %w[orders letters traces].each { |table| sql("DELETE FROM #{table}") }

  def dsn = ENV.fetch("HIPQ_TEST_MYSQL_DSN")

  def url = @sqlite ? "sqlite3:#{@dir}/hipq.db?timeout=20000" : "mysql2://#{dsn[/\A(.*?)@/, 1]}@#{dsn[/\((.*)\)/, 1]}/#{@name}?encoding=utf8mb4"

  # The shop as hipq init --for rails finds it: its gems are there, and its database is in config/database.yml.
  def shop
    FileUtils.cp_r(File.expand_path("shop", __dir__), "#{@dir}/shop")
    gems = environment["RUBYLIB"].split(":").map { |lib| "$LOAD_PATH.unshift #{lib.inspect}\n" }.join
    application = "#{@dir}/shop/config/application.rb"
    File.write(application, gems + File.read(application))
    server = dsn.match(/\A(?<username>\w+):?(?<password>.*)@tcp\((?<host>.*):(?<port>\d+)\)/).named_captures unless @sqlite
    database = @sqlite ? { adapter: "sqlite3", database: "#{@dir}/hipq.db", timeout: 20_000 } : { adapter: "mysql2", database: @name, encoding: "utf8mb4", **server }
    File.write("#{@dir}/shop/config/database.yml", JSON.generate(production: database.transform_keys(&:to_s)))
  end

  # init writes hipq's config and creates its tables. The application is where dir says.
  def init(attempts: 2, delay: "1ms", processes: 2, ahead: 0, dir: File.expand_path("shop", __dir__), run_for: "55s", more: "")
    handler = "{stream: [ruby, bin/rails, 'hipq:stream'], dir: #{dir}, start_timeout: 60s, restart_on: [#{dir}/REVISION], " \
              "env: [DATABASE_URL, RUBYLIB, RUBYOPT, UNHANDLED], processes: #{processes}, ahead: #{ahead}}"
    File.write("#{@dir}/hipq.yaml", <<~YAML)
      name: app
      #{"database: {driver: mysql, dsn: '#{dsn}#{@name}'}" unless @sqlite}
      worker: {concurrency: #{processes * (1 + ahead)}, grace: 5s, run_for: #{run_for}}
      timeout: 60s
      retry: {attempts: #{attempts}, delay: #{delay}, jitter: 0}
      default_priority: 0
      #{more}
      queues:
        - {name: default, job_types: [{name: "*", handler: #{handler}}]}
        - {name: low_prio, job_types: [{name: "*", handler: #{handler}}]}
    YAML
    run(HIPQ, "init")
  end

  def environment(more = {}) = { "DATABASE_URL" => url, "RUBYOPT" => "-W:no-deprecated", "ADAPTER" => "hipq", "RUBYLIB" => %w[../lib ../../ruby/lib].map { |lib| File.expand_path(lib, __dir__) }.join(":"), **more }

  def run(*command, **environment)
    out, err, status = Open3.capture3(environment(environment.transform_keys(&:to_s)), *command, chdir: @dir)
    status.success? ? out : raise("#{command}: #{status}\n#{out}#{err}")
  end

  def ruby(file, environment = {}) = run("ruby", File.expand_path(file, __dir__), **environment)

  # app runs Ruby in the shop.
  def app(code) = run("ruby", "-e", "require #{File.expand_path("shop/config/environment", __dir__).inspect}\n#{code}")

  # work runs the jobs that are due; a failed job, which it reports, is no error here.
  def work(environment = {}) = Open3.capture3(environment(environment), HIPQ, "work", chdir: @dir)[0]

  def jobs(queue = "default") = run(HIPQ, "jobs", queue, "--json", "--limit=0").lines.map { |line| JSON.parse(line) }.sort_by { |job| job["id"] }

  def traces = app("puts Trace.order(:id).pluck(:text)").lines(chomp: true)

  def sql(statement)
    @sqlite ? run("sqlite3", "-cmd", ".timeout 20000", "hipq.db", statement) : (@db ||= connect).query(statement)
  end

  def connect
    user, password, host, port = dsn.match(/\A(\w+):?(.*)@tcp\((.*):(\d+)\)/).captures
    db = Mysql2::Client.new(host: host, port: port.to_i, username: user, password: password)
    db.query("CREATE DATABASE IF NOT EXISTS #{@name} CHARACTER SET utf8mb4")
    db.select_db(@name)
    db
  end
end
