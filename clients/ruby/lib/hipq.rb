# frozen_string_literal: true

require "json"
require "open3"

# A client for hipq, the job queue in your database. Client adds, reads and changes jobs; run works on the jobs of a stream.
module Hipq
  VERSION = "0.1.0"
  class Error < StandardError; attr_accessor :number, :queue, :type, :key; end # as far as they are known
  class DuplicateJob < Error; end # a live job has this type and key
  class Refused < Error; end # by hipq; the reference of the procedures has the numbers
  class JobNotFound < Refused; end

  # A job's function raises these, with after in seconds. GiveUp: no retry helps. Retry: an error; without after, the type's
  # policy says when to run again. Release: run again, without an error; count: true uses up an attempt.
  class Reply < StandardError
    attr_reader :after, :count
    def initialize(message = nil, after: nil, count: false) = (@after, @count = after, count; super(message))
  end

  GiveUp, Retry, Release = Array.new(3) { Class.new(Reply) }

  # The connection is a Mysql2::Client, an SQLite3::Database or a connection of Active Record.
  class Client
    COLUMNS = { key: "job_key", weight: "throttle_factor", windows: "time_windows" }.freeze
    RANGES = { priority: -2_147_483_647..2_147_483_647, timeout: 1..316_224_000, weight: 0..2_147_483_647 }.freeze
    DUPLICATE = /Duplicate entry .* for key '[^']*\$live'|UNIQUE constraint failed: \S+\.job_type, \S+\.job_key, \S+\.live/m

    # tables has the tables of queues that aren't called INSTANCE_QUEUE. On SQLite, cancel, retry, dismiss, reschedule and
    # answer run the program command with this config; don't call them in a transaction.
    def initialize(connection, instance, tables: {}, command: "hipq", config: nil)
      @db, @instance, @tables = connection, name(instance), tables.transform_keys(&:to_s)
      @command = [command, "--json", *("--config=#{config}" if config)]
      @record = connection.respond_to?(:adapter_name)
      @sqlite = @record ? connection.adapter_name.match?(/sqlite/i) : connection.respond_to?(:last_insert_row_id)
    end

    # Adds a job and returns its id. data becomes JSON; raw: true takes a text as it is. key, at (a Time), in (seconds),
    # priority, timeout (seconds), weight, windows and shard_key have the type's defaults. on_duplicate: :error raises
    # DuplicateJob, :ignore returns the live job's id, :replace (not on SQLite) replaces a live job that waits.
    def push(queue, type, data = nil, on_duplicate: :error, **options)
      row = row(type: type, data: data, **options)
      return insert(queue, [row]) if on_duplicate.to_s == "error"
      job = %w[job_type job_key job_data].map { |column| row.delete(column) } unless @sqlite
      return call("job_submit", queue, *job, { on_duplicate: on_duplicate, **row })[:id].to_i unless @sqlite
      raise ArgumentError, "on_duplicate can't be #{on_duplicate} on SQLite" unless on_duplicate.to_s == "ignore"
      insert(queue, [row], "ON CONFLICT (job_type, job_key, live) DO UPDATE SET job_key = job_key")
    end

    # Adds a list of hashes with type, data and options, and returns how many. Up to 500 neighbours with the same options are
    # one INSERT, so call it in a transaction if you need all or none.
    def push_many(queue, list)
      size = 0
      full = ->(a, b) { ((size += a["job_data"].to_s.size + 1000) >= 500_000 || a.keys != b.keys) && size = 0 }
      list.map { |job| row(**job) }.slice_when(&full).sum { |part| insert(queue, part) && part.size }
    end

    # The job as a hash of the columns of the view INSTANCE_QUEUE$jobs, with a Time for a time; nil if there is none. Name it
    # by its id, or by type and key: then it is the live job, else the newest final one.
    def get(queue, id_or_type, key = nil)
      id, type, key = job(id_or_type, key)
      return call("job_get", queue, id, type, key) unless @sqlite
      which = id ? "id = #{id}" : "job_type = #{text(type)} AND job_key = #{text(key)}"
      query("SELECT * FROM `#{table(queue)}$jobs` WHERE #{which} ORDER BY state = 'final', id DESC LIMIT 1")[0]
    rescue JobNotFound # is nil
    end

    # These return the job's state. running: true also stops a running job. reschedule has at: or in:.
    def cancel(queue, id_or_type, key = nil, **running) = change("cancel", queue, id_or_type, key, running)
    def retry(queue, id_or_type, key = nil) = change("retry", queue, id_or_type, key)
    def dismiss(queue, id_or_type, key = nil) = change("dismiss", queue, id_or_type, key)
    def reschedule(queue, id_or_type, key = nil, **time) =
      change("reschedule", queue, id_or_type, key, time.to_h { |option, value| [option, value(option, value)] })

    # Ends a job that awaits its answer. outcome is "finished", "failed", "retry", or "release", which is no error and uses up
    # no attempt unless count is true; retry_after goes with the last two, in seconds.
    def answer(queue, type, key, outcome, result = nil, error: nil, retry_after: nil, count: nil)
      result = JSON.generate(result) unless result.nil?
      options = { error: error, retry_after: retry_after && "#{retry_after}s", count: count }.compact
      return call("job_answer", queue, nil, type, key, outcome, result, options)[:state] unless @sqlite
      options = { data: result, **options, **(%w[retry release].include?(outcome.to_s) ? { outcome => true } : {}) }
      hipq(outcome.to_s == "finished" ? "complete" : "fail", options, name(queue), type, key)[:state]
    end

    # Rolls back the connection's transaction if one is open, and says whether it was.
    def rollback
      return @db.transaction_open?.tap { @db.rollback_transaction while @db.transaction_open? } if @record
      return @db.transaction_active?.tap { |open| @db.rollback if open } if @sqlite
      @db.query("SET TRANSACTION READ WRITE") && false # an error within a transaction
    rescue StandardError => e
      number(e) == 1568 ? @db.query("ROLLBACK") || true : raise
    end

    private

    def name(text) = text.to_s.match?(/\A\w+\z/) ? text.to_s : raise(ArgumentError, "not a name in hipq: #{text.inspect}")
    def table(queue) = @tables.fetch(queue.to_s) { "#{@instance}_#{name(queue)}" }.delete("`")
    def job(id_or_type, key) = id_or_type.is_a?(Integer) ? [id_or_type] : [nil, id_or_type.to_s, key.to_s]
    def utf8(text) = [Encoding::BINARY, Encoding::US_ASCII].include?(text.encoding) ? text.dup.force_encoding(Encoding::UTF_8) : text.encode(Encoding::UTF_8)
    def number(error) = # the driver's, also behind an error of Active Record
      [error, error.cause].product(%i[error_number error_code]).filter_map { |e, name| e.public_send(name) if e.respond_to?(name) }.first.to_i

    def row(type:, data: nil, raw: false, **options)
      data = JSON.generate(data) unless raw || data.nil?
      options = options.compact.to_h { |option, value| [COLUMNS.fetch(option, option.to_s), value(option, value)] }
      { "job_type" => value(:type, type), "job_data" => data, **options }.compact
    end

    # An option as the procedures take it.
    def value(option, value)
      case option
      when :type, :key, :shard_key then value.to_s unless value.to_s.empty?
      when :at then value.to_time.getutc.strftime("%FT%T.%6NZ") if value.respond_to?(:to_time) && value.respond_to?(:hour)
      when :in then format("%.6fs", value) if (0..3_000_000_000).cover?(value.to_f)
      when :windows then value
      else Integer(value) if RANGES.fetch(option).cover?(Integer(value))
      end || raise(ArgumentError, "#{option} can't be #{value.inspect}")
    end

    def sql(value, column = nil)
      case column
      when "at" then "'#{value.tr("TZ", " ").strip}'"
      when "in" then @sqlite ? "strftime('%Y-%m-%d %H:%M:%f', 'now', '+#{value.chop} seconds')" : "UTC_TIMESTAMP(6) + INTERVAL #{value.chop} SECOND"
      when "time_windows" then value.empty? ? "'NONE'" : text(JSON.generate(value))
      else value.nil? ? "NULL" : value.is_a?(Integer) ? value.to_s : text(value.is_a?(Hash) ? JSON.generate(value) : value.to_s)
      end
    end

    # On MySQL in hexadecimal, which neither the character set nor the SQL mode of the session can change.
    def text(value)
      value = utf8(value)
      raise ArgumentError, "not UTF-8, or with a NUL: #{value.inspect}" if !value.valid_encoding? || value.include?("\0")
      @sqlite ? "'#{value.gsub("'", "''")}'" : "_utf8mb4 x'#{value.unpack1("H*")}'"
    end

    def insert(queue, rows, conflict = nil)
      columns = rows[0].keys.map { |column| %w[at in].include?(column) ? "scheduled_run_time" : column }.join(", ")
      values = rows.map { |row| "(#{row.map { |column, value| sql(value, column) }.join(", ")})" }.join(", ")
      sql = "INSERT INTO `#{table(queue)}` (#{columns}) VALUES #{values} #{conflict}#{" RETURNING id" if @sqlite}"
      ids = query(sql, queue: queue.to_s, **(rows.one? ? { type: rows[0]["job_type"], key: rows[0]["job_key"] } : {}))
      @sqlite ? ids.last[:id] : @record ? query("SELECT LAST_INSERT_ID() AS id")[0][:id] : @db.last_id
    end

    def change(action, queue, id_or_type, key, options = nil)
      id, type, key = job(id_or_type, key)
      return call("job_#{action}", queue, id, type, key, *[options].compact)[:state] unless @sqlite
      which = id ? {} : { type: type, key: key, limit: 1 }
      get(queue, hipq(action, { yes: true, **which, **options.to_h }, name(queue), *id)[:id])[:state]
    end

    def call(procedure, queue, *arguments)
      arguments = [name(queue), *arguments].map { |value| sql(value) }.join(", ")
      raw = @record ? @db.raw_connection : @db
      query("CALL `#{@instance}_#{procedure}`(#{arguments})", queue: queue.to_s)[0].tap { raw.abandon_results! if raw.respond_to?(:abandon_results!) }
    end

    # Runs the program, which prints a line for the job.
    def hipq(action, options, *arguments)
      flags = options.compact.map { |flag, value| "--#{flag.to_s.tr("_", "-")}=#{value}" }
      out, err, status = Open3.capture3(*@command, action, *flags, "--", *arguments.map(&:to_s))
      answer = out.empty? ? {} : JSON.parse(out.lines.last, symbolize_names: true)
      raise JobNotFound, "no such job" if answer[:result] == "unknown" || (answer.empty? && status.success?)
      raise Refused, answer[:reason] || "the job is #{answer[:state]}" if answer[:result] == "refused"
      status.success? ? answer : raise(Error, "hipq #{action}: exit code #{status.exitstatus}: #{err.strip}")
    end

    def query(sql, **about)
      rows = if @record then @db.exec_query(sql, "hipq").to_a
             elsif @sqlite then @db.execute2(sql).then { |names, *rows| rows.map { |row| row.is_a?(Hash) ? row : names.zip(row).to_h } }
             else @db.query(sql, as: :hash, symbolize_keys: false, cast: true, stream: false, async: false).to_a
             end
      rows.map { |row| row.to_h { |column, value| [column.to_sym, read(column.to_s, value)] } }
    rescue StandardError => e
      kind = e.message.match?(DUPLICATE) ? DuplicateJob : { 31_007 => JobNotFound }.fetch(number(e)) { |n| n.between?(31_000, 31_999) ? Refused : raise }
      raise kind.new(e.message).tap { |error| { number: number(e), **about }.each { |name, value| error.public_send("#{name}=", value) } }
    end

    # Drivers give a time, which has no zone in the database, that of the process.
    def read(column, value)
      return Time.utc(value.year, value.month, value.day, value.hour, value.min, value.sec + value.subsec) if value.is_a?(Time)
      column.end_with?("_time") && value ? Time.utc(*value.split(/[-: ]/).map(&:to_r)) : value.is_a?(String) ? utf8(value) : value
    end
  end

  Job = Struct.new(:id, :queue, :type, :key, :data, :attempt, :interrupts, :token, :timeout, :stream) do
    def progress(percent, note = nil) = stream.say(id: id, token: token, progress: percent, note: note)
    def stopping? = !!stream.stopping # hipq has sent a TERM: finish soon, or raise Release
  end

  # Serves a stream: types has a function for each job type, "*" for all others. It gets a Job; a Hash, Array or text that it
  # returns is the result. A transaction that it leaves open in one of the connections is rolled back, and the job tried again.
  # After a TERM, run returns when the current job has ended; at the job's timeout, a TERM raises SignalException in it.
  def self.run(types, connections: []) = Stream.new(types, connections).run

  class Stream
    attr_reader :stopping

    # What jobs print becomes their log, and the programs that they start get neither jobs nor a way to answer.
    def initialize(types, connections)
      @types, @connections, @in, @out = types.transform_keys(&:to_s), connections, STDIN.dup, STDOUT.dup
      STDIN.reopen(File::NULL)
      STDOUT.reopen(STDERR)
      STDOUT.sync = @out.sync = true
    end

    def run
      trap("TERM") { @stopping = @busy or exit; raise SignalException, "TERM" if clock >= @busy }
      say(ready: true)
      while !@stopping && (line = @in.gets)
        job = { "interrupts" => 0, **JSON.parse(line.force_encoding(Encoding::UTF_8)) }
        job = Job.new(*job.values_at(*%w[id queue job_type job_key job_data attempt interrupts token]), job["timeout_ms"] / 1e3, self)
        @busy = clock + job.timeout * 0.9 - 0.5 # hipq's clock began earlier
        say(id: job.id, token: job.token, **reply(job))
        @busy = nil
      end
    end

    def say(reply) = @out.write("#{JSON.generate(reply.compact)}\n")

    private

    def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    def short(text) = text.dup.force_encoding(Encoding::UTF_8).scrub[0, 1000]

    def reply(job)
      function = @types[job.type] || @types["*"] or return { outcome: "failed", error: "no function for the job type #{job.type}" }
      reply = answer(function, job)
      open = @connections.map { |connection| Client.new(connection, "hipq").rollback }.any?
      open && reply[:outcome] == "finished" ? { outcome: "retry", error: "the job left a transaction open" } : reply
    rescue StandardError => e # a connection is lost, and with it perhaps what the job did: the next job gets a new program
      @stopping = true
      { outcome: "retry", error: short("#{e.class}: #{e.message}") }
    end

    def answer(function, job)
      result = function.call(job)
      reply = { outcome: "finished", result: (result if [Hash, Array, String].any? { |kind| kind === result }) }
      JSON.generate(reply).bytesize < 1_000_000 ? reply : { outcome: "retry", error: "the result is over 1 MB" }
    rescue GiveUp => e
      { outcome: "failed", error: short(e.message) }
    rescue Release => e
      { outcome: "release", retry_after: "#{e.after.to_f}s", count: e.count }
    rescue Retry => e
      { outcome: "retry", error: short(e.message), retry_after: e.after && "#{e.after.to_f}s" }
    rescue StandardError, ScriptError, SystemStackError, SystemExit => e
      warn e.full_message(highlight: false)
      { outcome: "retry", error: short("#{e.class}: #{e.message}") }
    end
  end
end
