# frozen_string_literal: true

# The stream program of the tests. Each type shows one thing that a job may do.
require_relative "databases"
require "hipq"

db = Databases.open(ENV.fetch("DATABASE"))

Hipq.run(
  {
    echo: ->(job) { { data: job.data, key: job.key, attempt: job.attempt, interrupts: job.interrupts, timeout: job.timeout } },
    prints: ->(_) { puts '{"outcome": "failed"}'; system("cat; echo '{}'"); "done" },
    progress: ->(job) { job.progress(40, "page 4 of 10"); nil },
    gives_up: ->(_) { raise Hipq::GiveUp, "no such customer" },
    busy: ->(job) { job.attempt == 1 ? raise(Hipq::Retry.new("busy", after: 0)) : "free" },
    waits: ->(job) { job.attempt == 1 && !File.exist?("released") ? File.write("released", "") && raise(Hipq::Release.new(after: 0)) : [job.attempt] },
    raises: ->(_) { raise "a bug \xff" },
    exits: ->(_) { exit 3 },
    not_json: ->(_) { [Float::NAN] },
    leaves_open: ->(_) { Databases.run(db, "BEGIN") && Databases.run(db, "INSERT INTO notes (text) VALUES ('open')") },
    notes: ->(job) { Databases.run(db, "INSERT INTO notes (text) VALUES ('#{job.key}')") },
    loses: ->(job) { job.attempt == 1 ? Databases.lose(db) : "found" },
    slow: ->(job) { File.write("started", ""); sleep 0.05 until job.stopping?; "finished after a TERM" },
    too_long: ->(_) { begin sleep 60 ensure File.write("ended", $!.class) end },
    "*" => ->(job) { { other: job.type } }
  }, connections: [db]
)
