# frozen_string_literal: true

# The connections that the tests compare: the drivers, and Active Record on them. HIPQ_TEST_MYSQL_DSN names a MariaDB or MySQL.
$LOAD_PATH.unshift File.expand_path("../lib", __dir__)
require "mysql2"
require "sqlite3"

module Databases
  module_function

  # HIPQ_TEST_QUICK leaves Active Record out.
  def all
    drivers = %w[sqlite3] + (ENV["HIPQ_TEST_MYSQL_DSN"] ? %w[mysql2] : [])
    ENV["HIPQ_TEST_QUICK"] ? drivers : drivers.flat_map { |driver| [driver, "active_record:#{driver}"] }
  end

  def server
    user, password, host, port = ENV.fetch("HIPQ_TEST_MYSQL_DSN").match(%r{\A(\w+):?(.*)@tcp\(([\w.]+):(\d+)\)/}).captures
    { host: host, port: port.to_i, username: user, password: password, encoding: "utf8mb4" }
  end

  # open opens a database by its name in all: on MySQL the one that DATABASE_NAME names, on SQLite the file hipq.db.
  def open(name, **options)
    Warning[:deprecated] = false # mysql2's
    mysql = { **(name.include?("mysql2") ? server : {}), database: ENV["DATABASE_NAME"], **options }
    case name
    when "sqlite3" then SQLite3::Database.new("hipq.db").tap { |db| db.busy_timeout = 20_000 }
    when "mysql2" then Mysql2::Client.new(mysql)
    when "active_record:sqlite3" then record(adapter: "sqlite3", database: "hipq.db", timeout: 20_000)
    else record(adapter: "mysql2", **mysql)
    end
  end

  def record(config)
    require "active_record"
    ActiveRecord::Base.establish_connection(config)
    ActiveRecord::Base.connection
  end

  # run runs a statement; Active Record knows of its transactions only by its own methods.
  def run(db, sql)
    return db.begin_transaction(joinable: false) if db.respond_to?(:begin_transaction) && sql == "BEGIN"

    db.respond_to?(:last_insert_row_id) || db.respond_to?(:adapter_name) ? db.execute(sql) : db.query(sql)
    true
  end

  # lose cuts the connection, and SQLite's file can't be lost.
  def lose(db)
    run(db, "KILL CONNECTION_ID()") if ENV["DATABASE"].include?("mysql")
  rescue StandardError
    nil
  end
end
