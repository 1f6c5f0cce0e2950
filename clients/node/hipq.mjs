// Durable jobs on MariaDB, MySQL or SQLite: README.md shows how to enqueue and run them, hipq.d.mts has the types.
import { spawnSync } from 'node:child_process'
import { createInterface } from 'node:readline'

/** The base of the errors that Client throws. Errors of the driver pass through. */
export class HipqError extends Error {
  name = this.constructor.name
  constructor (message, number, cause) {
    super(message, { cause })
    this.number = number
  }
}
/** A live job has the type and the key. */
export class DuplicateJob extends HipqError {}
/** hipq refused a call. number is that of the procedure's error, or on SQLite the exit code of the command. */
export class Refused extends HipqError {}
export class JobNotFound extends Refused {}

// A column that isn't given; a text, in hex, which no character set, SQL mode or driver changes; a time from now.
const SQLITE = { missing: 'NULL', text: hex => `CAST(X'${hex}' AS TEXT)`, soon: span => `strftime('%Y-%m-%d %H:%M:%f', 'now', '+${span} seconds')` }
const MYSQL = { missing: 'DEFAULT', text: hex => `CONVERT(X'${hex}' USING utf8mb4)`, soon: span => `UTC_TIMESTAMP(6) + INTERVAL ${span} SECOND` }

/** Works on your own connection. On SQLite, which is synchronous, so are all methods. */
export class Client {
  #db; #sqlite; #instance; #tables; #command

  constructor (connection, instance, { tables = {}, command = 'hipq', config } = {}) {
    this.#sqlite = typeof connection.prepare === 'function' && typeof connection.query !== 'function'
    this.#db = !this.#sqlite && typeof connection.promise === 'function' ? connection.promise() : connection;
    [this.#instance, this.#tables, this.#command] = [instance, tables, [command, ...(config ? ['--config', config] : [])]]
  }

  push (queue, type, data, { onDuplicate = 'error', ...options } = {}) {
    const row = toRow({ type, data, ...options })
    if (!(this.#sqlite ? ['error', 'ignore'] : ['error', 'ignore', 'replace']).includes(onDuplicate)) throw new TypeError(`onDuplicate is ${onDuplicate}`)
    const conflict = onDuplicate === 'error' ? '' : 'ON CONFLICT (job_type, job_key, live) DO UPDATE SET job_key = job_key'
    if (onDuplicate === 'error' || this.#sqlite) return this.#insert(queue, [row], done => done.id, conflict)
    const { job_type: t, job_key: k, job_data: d, scheduled_run_time: when, ...more } = row
    const time = when && { [when.endsWith('s') ? 'in' : 'at']: when }
    return this.#call('job_submit', [queue, t, k, d, { ...more, ...time, on_duplicate: onDuplicate }], row => row.id)
  }

  pushMany (queue, jobs) {
    const rows = Array.from(jobs, toRow)
    const parts = []
    let size = 0
    for (const row of rows) {
      size += 1000 + (row.job_data ?? '').length
      const part = parts[Math.floor(size / 500000)] ??= []
      part.push(row)
    }
    const rest = Object.values(parts)
    const insert = () => rest.length ? this.#insert(queue, rest.shift(), insert) : rows.length
    return this.#sqlite ? insert() : Promise.resolve().then(insert)
  }

  get (queue, job) {
    const [id, type, key] = names(job)
    if (!this.#sqlite) {
      return this.#call('job_get', [queue, id, type, key], row => row).catch(error => error instanceof JobNotFound ? null : Promise.reject(error))
    }
    const where = id == null ? `job_type = ${this.#sql(type)} AND job_key = ${this.#sql(key)}` : `id = ${this.#sql(id)}`
    return this.#query(`SELECT * FROM ${this.#table(queue, '$jobs')} WHERE ${where} ORDER BY state = 'final', id DESC LIMIT 1`, row => row ?? null)
  }

  cancel (queue, job, { running = false } = {}) { return this.#change('cancel', queue, job, { running }) }
  retry (queue, job) { return this.#change('retry', queue, job) }
  dismiss (queue, job) { return this.#change('dismiss', queue, job) }
  reschedule (queue, job, { at, in: span }) { return this.#change('reschedule', queue, job, { [span === undefined ? 'at' : 'in']: time(at, span) }) }

  answer (queue, type, key, outcome = 'finished', result, { error, retryAfter, count } = {}) {
    const data = result == null ? undefined : json(result)
    const options = { error, retry_after: time(undefined, retryAfter), count }
    if (!this.#sqlite) return this.#call('job_answer', [queue, null, type, key, outcome, data, options], row => row.state)
    const more = { finished: { data }, failed: {} }[outcome] ?? { [outcome]: true }
    return this.#change(outcome === 'finished' ? 'complete' : 'fail', queue, { type, key }, { ...options, ...more })
  }

  /** Calls the procedure, or on SQLite runs the command of this name, and returns the job's state. */
  #change (name, queue, job, options) {
    if (!this.#sqlite) return this.#call('job_' + name, [queue, ...names(job), ...(options ? [options] : [])], row => row.state)
    const row = this.get(queue, job)
    if (!row) throw new JobNotFound(`queue ${queue} has no such job`, 31007)
    const flags = Object.entries(options ?? {}).flatMap(([option, value]) => value == null ? [] : [`--${option.replace('_', '-')}=${value}`])
    const which = ['complete', 'fail'].includes(name) ? [row.job_type, row.job_key] : [String(row.id)]
    const [program, ...config] = this.#command
    const done = spawnSync(program, [...config, name, ...flags, '--', queue, ...which], { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' })
    if (done.error) throw done.error
    if (done.status !== 0) throw new Refused((done.stderr || done.stdout).trim(), done.status)
    return this.get(queue, row.id)?.state ?? 'final'
  }

  #table (queue, more = '') { return '`' + (this.#tables[queue] ?? `${this.#instance}_${queue}`).replaceAll('`', '``') + more + '`' }

  #call (name, values, ok) { return this.#query(`CALL ${this.#instance}_${name}(${values.map(value => this.#sql(value)).join(', ')})`, ok) }

  #insert (queue, rows, ok, more = '') {
    const columns = [...new Set(rows.flatMap(Object.keys))]
    const values = rows.map(row => `(${columns.map(name => this.#sql(row[name], name)).join(', ')})`)
    const job = rows.length > 1 ? 'one of the types and keys' : `type ${rows[0].job_type} has the key ${rows[0].job_key}`
    const sql = `INSERT INTO ${this.#table(queue)} (${columns.join(', ')}) VALUES ${values.join(', ')} ${more}${this.#sqlite ? ' RETURNING id' : ''}`
    return this.#query(sql, ok, `queue ${queue}: a live job of ${job}`)
  }

  #sql (value, column) {
    const { missing, text, soon } = this.#sqlite ? SQLITE : MYSQL
    if (value == null) return column ? missing : 'NULL'
    if (typeof value === 'number') return String(value)
    if (column === 'scheduled_run_time') return value.endsWith('s') ? soon(value.slice(0, -1)) : `'${value.slice(0, -1).replace('T', ' ')}'`
    return text(Buffer.from(typeof value === 'string' ? value : json(value)).toString('hex'))
  }

  /** Calls ok with the first row, or the id of a new one. */
  #query (sql, ok, duplicate) {
    const bad = error => {
      const { errno = 0, sqlMessage: message = error.message } = error
      if ((errno === 1062 || this.#sqlite) && /[$.]live'?$/.test(message)) throw new DuplicateJob(duplicate, errno, error)
      if (!(errno > 31000 && errno < 32000)) throw error
      throw new (errno === 31007 ? JobNotFound : Refused)(message, errno, error)
    }
    if (!this.#sqlite) { // query, not execute: each statement runs once
      const plain = { sql, rowsAsArray: false, nestTables: false, namedPlaceholders: false, typeCast: asText }
      return this.#db.query(plain).then(([found]) => ok(Array.isArray(found) ? read(found[0][0]) : { id: Number(found.insertId) }), bad)
    }
    let rows
    try { rows = this.#db.prepare(sql).all() } catch (error) { bad(error) }
    return ok(read(rows[0]))
  }
}

const names = job => typeof job === 'object' ? [null, job.type, job.key] : [job, null, null]
const asText = (field, next) => field.type === 'DATETIME' ? field.string() : next()
const toDate = text => new Date(text.slice(0, 23).replace(' ', 'T') + 'Z')
const read = row => row && Object.fromEntries(Object.entries(row).map(([name, value]) => [name, name.endsWith('_time') && value ? toDate(value) : value]))

// Numbers that a session without strict mode would change without a word.
const limits = { priority: [-2147483647, 2147483647], timeout: [1, 316224000], throttle_factor: [0, 2147483647] }

/** Returns a job's columns, checked as the table would in strict mode, and as the next tick would. */
function toRow ({ type, data, key, at, in: span, priority, timeout, weight, windows, shardKey, raw, ...unknown }) {
  const row = { job_type: type, job_key: key, shard_key: shardKey, priority, timeout, throttle_factor: weight }
  for (const [name, value] of Object.entries(row)) {
    const [low, high] = limits[name] ?? []
    const fits = high ? Number.isInteger(value) && value >= low && value <= high : typeof value === 'string' && value && !/[\0\p{Cs}]/u.test(value)
    if (value != null && !fits) throw new TypeError(`${name} is ${JSON.stringify(value)}`)
  }
  const text = data == null || raw ? data : json(data)
  if (type == null || type === 'NONE' || /\p{Cc}/u.test(type) || ['', 'NONE'].includes(text) || (at != null && span != null)) {
    throw new TypeError('a job needs a type without control characters, and no two times; NONE and empty text are no values')
  }
  if (Object.keys(unknown).length) throw new TypeError(`unknown options: ${Object.keys(unknown)}`)
  const all = { ...row, job_data: text, scheduled_run_time: time(at, span), time_windows: windows }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value != null))
}

function json (value) {
  const text = JSON.stringify(value, (_, v) => {
    if (typeof v === 'number' && !Number.isFinite(v)) throw new TypeError(`${v} is no JSON`)
    return v
  })
  if (text === undefined) throw new TypeError(`${typeof value} is no JSON`)
  return text
}

/** Returns a Date in UTC, or seconds from now, as hipq reads them. */
function time (at, span) {
  if (span != null && !(typeof span === 'number' && span >= 0 && span <= 1e11)) throw new TypeError(`${span} is no number of seconds from now`)
  if (at != null && !(at instanceof Date && at >= 0 && at < Date.UTC(9999, 0))) throw new TypeError(`${at} is no Date from 1970 to 9998`)
  return span == null ? at?.toISOString() : `${span.toFixed(6)}s`
}

/** The base of what a job throws to end its attempt. after is in seconds. */
class Outcome extends Error { name = this.constructor.name }
/** The job fails for good. */
export class GiveUp extends Outcome { outcome = 'failed' }
/** An error of the job. It runs again after so many seconds, or as its retry policy says. */
export class Retry extends Outcome {
  outcome = 'retry'
  constructor (message = 'retry', after) { super(message); this.after = after }
}
/** No error: the job runs again after so many seconds. */
export class Release extends Outcome {
  outcome = 'release'
  constructor (after = 0, { count = false } = {}) { super(); Object.assign(this, { after, count }) }
}

/** Runs a stream's jobs: {type: job => result}, '*' for all other types; as many at once as in_flight says. With
 * connection, one after the other: a transaction that a job leaves open is rolled back, and the job is retried. */
export async function run (functions, { connection } = {}) {
  const write = process.stdout.write.bind(process.stdout)
  const say = reply => write(JSON.stringify(reply) + '\n')
  process.stdout.write = process.stderr.write.bind(process.stderr) // what jobs print is log, never a reply
  const stopping = new AbortController()
  const lines = createInterface({ input: process.stdin })
  const stop = () => { stopping.abort(); lines.close() }
  process.on('SIGTERM', stop)
  const running = new Set()
  const start = line => {
    const { id, queue, job_type: type, job_key: key, job_data: data, attempt, interrupts = 0, token, timeout_ms: ms } = JSON.parse(line)
    const progress = (percent, note) => { say({ id, token, progress: percent, note }) }
    const job = { id, queue, type, key, data: decoded(data), attempt, interrupts, token, timeout: ms / 1000, signal: stopping.signal, progress }
    const answer = perform(functions, job, connection).then(reply => say({ id, token, ...reply })).finally(() => running.delete(answer))
    running.add(answer)
    return answer
  }
  say({ ready: true })
  for await (const line of lines) {
    const answer = start(line)
    if (connection) await answer
  }
  await Promise.all(running)
  process.off('SIGTERM', stop)
  setTimeout(() => process.exit(), 1000).unref() // an open connection must not keep the program
}

function decoded (data) {
  if (typeof data !== 'string') return data
  try { return JSON.parse(data) } catch { return data }
}

async function perform (functions, job, connection) {
  let reply
  try {
    const type = [job.type, '*'].find(type => Object.hasOwn(functions, type))
    if (!type) throw new GiveUp(`no function for the type ${job.type}`)
    const result = await functions[type](job)
    reply = { outcome: 'finished', result: result == null ? undefined : JSON.parse(json(result)) }
    if (Buffer.byteLength(JSON.stringify(reply)) > 1048000) throw new RangeError('the result has more than 1 MiB')
  } catch (error) {
    const message = String(error?.message ?? error).slice(0, 2000)
    if (!(error instanceof Outcome)) console.error(error)
    reply = !(error instanceof Outcome) ? { outcome: 'retry', error: `${error?.name ?? 'Error'}: ${message}` }
      : { outcome: error.outcome, error: message || undefined, retry_after: time(undefined, error.after), count: error.count }
  }
  const wrong = connection && await leftOpen(connection)
  return wrong && reply.outcome === 'finished' ? { outcome: 'retry', error: wrong } : reply
}

/** Rolls back the transaction that the connection has open, and returns what is wrong with it, if anything. */
async function leftOpen (connection) {
  const sqlite = typeof connection.query !== 'function'
  const db = typeof connection.promise === 'function' ? connection.promise() : connection
  try { // SET TRANSACTION is an error within a transaction
    if (sqlite ? !(db.inTransaction ?? db.isTransaction) : await db.query('SET TRANSACTION READ WRITE')) return
  } catch (error) {
    if (error.errno !== 1568) return `the connection is lost: ${error.message}`
  }
  await (sqlite ? db.exec('ROLLBACK') : db.query('ROLLBACK'))
  return 'the job left a transaction open, which was rolled back'
}
