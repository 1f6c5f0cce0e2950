// Durable jobs on MariaDB, MySQL or SQLite: enqueue them in your own transaction, and run them for hipq. Types are in
// hipq.d.mts.
//
//   const jobs = new Client(db, 'shop')  // db: your connection, whose transactions remain yours
//   await jobs.push('emails', 'send', { order: 4711 }, { key: 'order-4711' })
//
//   await run({ send })  // the program of a stream
import { spawnSync } from 'node:child_process'
import { createInterface } from 'node:readline'

const MIB = 1 << 20

export class HipqError extends Error {
  name = this.constructor.name
}

/** A live job of this type has the key. */
export class DuplicateJob extends HipqError {
  constructor (queue, type, key, cause) {
    super(type == null ? `queue ${queue} has a live job with one of the keys` : `queue ${queue}: a live job of type ${type} has the key ${key}`, { cause })
    Object.assign(this, { queue, type, key })
  }
}

/** hipq refused a call. number is that of the procedure's error, or on SQLite the exit code of the command. */
export class Refused extends HipqError {
  constructor (message, number, cause) {
    super(message, { cause })
    this.number = number
  }
}

export class JobNotFound extends Refused {}

/** Works on your own connection. On SQLite, which is synchronous, so are all methods. */
export class Client {
  #db; #sqlite; #instance; #tables; #command

  constructor (connection, instance, { tables = {}, command = 'hipq', config } = {}) {
    this.#sqlite = typeof connection.prepare === 'function' && typeof connection.query !== 'function'
    this.#db = !this.#sqlite && typeof connection.promise === 'function' ? connection.promise() : connection
    this.#instance = instance
    this.#tables = tables
    this.#command = [command, ...(config ? ['--config', config] : [])]
  }

  push (queue, type, data, { onDuplicate = 'error', ...options } = {}) {
    const row = toRow({ type, data, ...options })
    if (!['error', 'ignore', 'replace'].includes(onDuplicate) || (onDuplicate === 'replace' && this.#sqlite)) {
      throw new TypeError(`onDuplicate is ${onDuplicate}`)
    }
    if (onDuplicate !== 'error' && !this.#sqlite) {
      const { job_type: t, job_key: k, job_data: d, scheduled_run_time: when, time_windows: w, ...more } = row
      const at = when instanceof FromNow ? { in: duration(when.seconds) } : when ? { at: when + 'Z' } : {}
      const windows = w ? { time_windows: JSON.parse(w) } : {}
      return this.#call('job_submit', [queue, t, k, d, { ...more, ...at, ...windows, on_duplicate: onDuplicate }], row => row.id)
    }
    return this.#insert(queue, [row], done => Number(done.insertId ?? done.lastInsertRowid), error => {
      if (onDuplicate === 'ignore' && error instanceof DuplicateJob) return this.#find(queue, null, type, row.job_key).id
      throw error
    })
  }

  pushMany (queue, jobs) {
    const chunks = []
    let size = Infinity
    let count = 0
    for (const job of jobs) {
      const row = toRow(job)
      const length = Buffer.byteLength(row.job_data ?? '')
      if (size + length > MIB || chunks.at(-1).length === 500) {
        chunks.push([])
        size = 0
      }
      chunks.at(-1).push(row)
      size += length
      count++
    }
    const insert = () => chunks.length ? this.#insert(queue, chunks.shift(), insert) : count
    return this.#sqlite ? insert() : Promise.resolve().then(insert)
  }

  get (queue, job) {
    if (this.#sqlite) return this.#find(queue, ...names(job))
    return this.#call('job_get', [queue, ...names(job)], row => row ?? null).catch(error => {
      if (error instanceof JobNotFound) return null
      throw error
    })
  }

  cancel (queue, job, { running = false } = {}) { return this.#act('cancel', queue, job, [{ running }], running ? ['--running'] : []) }
  retry (queue, job) { return this.#act('retry', queue, job) }
  dismiss (queue, job) { return this.#act('dismiss', queue, job) }

  reschedule (queue, job, { at, in: span }) {
    const [name, when] = span === undefined ? ['at', utc(at).replace(' ', 'T') + 'Z'] : ['in', duration(span)]
    return this.#act('reschedule', queue, job, [{ [name]: when }], ['--' + name, when])
  }

  answer (queue, type, key, outcome = 'finished', result, { error, retryAfter } = {}) {
    const text = result == null ? null : json(result)
    if (!this.#sqlite) {
      const options = { ...(error == null ? {} : { error }), ...(retryAfter == null ? {} : { retry_after: duration(retryAfter) }) }
      return this.#call('job_answer', [queue, null, type, key, outcome, text, options], row => row.state)
    }
    if (retryAfter != null || !['finished', 'retry', 'failed'].includes(outcome)) {
      throw new TypeError('outcome is finished, retry or failed; retryAfter needs MariaDB or MySQL')
    }
    const flags = outcome === 'finished' ? ['complete', ...(text === null ? [] : ['--data', text])] : ['fail', '--error', error ?? outcome]
    return this.#run([...flags, ...(outcome === 'retry' ? ['--retry'] : [])], queue, [type, key], [null, type, key])
  }

  #act (name, queue, job, options = [], flags = []) {
    if (!this.#sqlite) return this.#call('job_' + name, [queue, ...names(job), ...options], row => row.state)
    const id = this.#find(queue, ...names(job))?.id ?? 0
    return this.#run([name, ...flags], queue, [String(id)], [id, null, null])
  }

  #run (command, queue, which, job) {
    const [program, ...config] = this.#command
    const done = spawnSync(program, [...config, ...command, '--', queue, ...which], { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' })
    if (done.error) throw done.error
    const found = this.#find(queue, ...job)
    if (done.status !== 0) throw new (found ? Refused : JobNotFound)((done.stderr || done.stdout).trim(), done.status)
    return found?.state
  }

  #table (queue, more = '') { return '`' + (this.#tables[queue] ?? `${this.#instance}_${queue}`).replaceAll('`', '``') + more + '`' }

  #insert (queue, rows, ok, bad = error => { throw error }) {
    const columns = [...new Set(rows.flatMap(Object.keys))]
    const parameters = []
    const missing = this.#sqlite ? 'NULL' : 'DEFAULT' // on SQLite, NULL is a column's default
    const values = rows.map(row => `(${columns.map(name => this.#value(row[name], parameters, missing)).join(', ')})`)
    return this.#query(`INSERT INTO ${this.#table(queue)} (${columns.join(', ')}) VALUES ${values.join(', ')}`, parameters, ok, error => {
      const duplicate = this.#sqlite ? /UNIQUE.*\.job_key/.test(error.message) : error.errno === 1062 && error.message.includes('$live')
      return bad(duplicate ? new DuplicateJob(queue, ...(rows.length > 1 ? [] : [rows[0].job_type, rows[0].job_key]), error) : error)
    })
  }

  /** Returns the SQL of a value. Text travels in hex, which no character set, SQL mode or driver changes. */
  #value (value, parameters, missing = 'NULL') {
    if (value === undefined || value === null) return missing
    if (value instanceof FromNow) {
      parameters.push(this.#sqlite ? `+${value.seconds.toFixed(6)} seconds` : Math.floor(value.seconds * 1e6))
      return this.#sqlite ? "strftime('%Y-%m-%d %H:%M:%f', 'now', ?)" : 'UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND'
    }
    const text = typeof value === 'object' ? JSON.stringify(value) : value
    const asHex = typeof text === 'string' && !this.#sqlite
    parameters.push(asHex ? Buffer.from(text).toString('hex') : text)
    return asHex ? 'CONVERT(UNHEX(?) USING utf8mb4)' : '?'
  }

  #call (name, values, ok) {
    const parameters = []
    const marks = values.map(value => this.#value(value, parameters)).join(', ')
    return this.#query(`CALL ${this.#instance}_${name}(${marks})`, parameters, ([[row]]) => ok(row), error => {
      if (!(error.errno > 31000 && error.errno < 32000)) throw error
      throw new (error.errno === 31007 ? JobNotFound : Refused)(error.sqlMessage, error.errno, error)
    })
  }

  #find (queue, id, type, key) {
    const [where, values] = id != null ? ['id = ?', [id]] : ['job_type = ? AND job_key = ?', [type, key]]
    const row = this.#db.prepare(`SELECT * FROM ${this.#table(queue, '$jobs')} WHERE ${where} ORDER BY id DESC LIMIT 1`).get(...values)
    const read = ([name, value]) => [name, name.endsWith('_time') && value ? new Date(value.slice(0, 23).replace(' ', 'T') + 'Z') : value]
    return row ? Object.fromEntries(Object.entries(row).map(read)) : null
  }

  #query (sql, values, ok, bad) {
    if (!this.#sqlite) { // query, not execute: each statement runs once
      const plain = { sql, values, rowsAsArray: false, nestTables: false, namedPlaceholders: false, typeCast: asUTC }
      return this.#db.query(plain).then(([result]) => ok(result), bad)
    }
    let done
    try {
      done = this.#db.prepare(sql).run(...values)
    } catch (error) {
      return bad(error)
    }
    return ok(done)
  }
}

function asUTC (field, next) {
  if (field.type !== 'DATETIME') return next()
  const text = field.string()
  return text && new Date(text.replace(' ', 'T') + 'Z')
}

/** A time that the database's clock gives. */
class FromNow {
  constructor (seconds) { this.seconds = seconds }
}

const limits = { priority: [-2147483647, 2147483647], timeout: [1, 316224000], throttle_factor: [0, 2147483647] }

/** Checks a job as the table would in strict mode, and as the next tick would. */
function toRow ({ type, data, key, at, in: span, priority, timeout, weight, windows, shardKey, raw, ...unknown }) {
  const given = { job_type: type, job_key: key, shard_key: shardKey, priority, timeout, throttle_factor: weight }
  const row = Object.fromEntries(Object.entries(given).filter(([, value]) => value != null))
  for (const [name, value] of Object.entries(row)) {
    const [low, high] = limits[name] ?? []
    const fits = high ? Number.isInteger(value) && value >= low && value <= high
      : typeof value === 'string' && value && !value.includes('\0') && Buffer.from(value).toString() === value
    if (!fits) throw new TypeError(`${name} is ${JSON.stringify(value)}`)
  }
  if (data != null) row.job_data = raw ? String(data) : json(data)
  if (type == null || type === 'NONE' || /\p{Cc}/u.test(type) || ['', 'NONE'].includes(row.job_data) || (at != null && span != null)) {
    throw new TypeError('a job needs a type without control characters, and no two times; NONE and empty text are no values')
  }
  if (Object.keys(unknown).length) throw new TypeError(`unknown options: ${Object.keys(unknown)}`)
  if (at != null) row.scheduled_run_time = utc(at)
  if (span != null) row.scheduled_run_time = new FromNow(seconds(span))
  if (windows != null) row.time_windows = json(windows)
  return row
}

const names = job => typeof job === 'object' ? [null, job.type, job.key] : [job, null, null]
const duration = span => `${seconds(span).toFixed(6)}s`

function json (value) {
  const text = JSON.stringify(value, (_, v) => {
    if (typeof v === 'number' && !Number.isFinite(v)) throw new TypeError(`${v} is no JSON`)
    return v
  })
  if (text === undefined) throw new TypeError(`${typeof value} is no JSON`)
  return text
}

function utc (at) {
  if (!(at instanceof Date) || !(at >= 0 && at < Date.UTC(9999, 0))) throw new TypeError(`${at} is no Date from 1970 to 9998`)
  return at.toISOString().replace('T', ' ').slice(0, -1)
}

function seconds (span) {
  if (!(typeof span === 'number' && span >= 0 && span <= 1e11)) throw new TypeError(`${span} is no number of seconds from now`)
  return span
}

/** Thrown by a job: it fails for good. */
export class GiveUp extends Error {
  name = 'GiveUp'
}

/** An error of the job. It runs again after so many seconds, or as its retry policy says. */
export class Retry extends Error {
  name = 'Retry'
  constructor (message = 'retry', after) { super(message); this.after = after }
}

/** No error: the job runs again after so many seconds. */
export class Release extends Error {
  name = 'Release'
  constructor (after = 0, { count = false } = {}) { super('released'); Object.assign(this, { after, count }) }
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
    const answer = perform(functions, job, connection).then(reply => say({ id, ...reply })).finally(() => running.delete(answer))
    running.add(answer)
    return answer
  }
  say({ ready: true })
  for await (const line of lines) {
    if (connection) await start(line)
    else start(line)
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
  const find = type => Object.hasOwn(functions, type) ? functions[type] : undefined
  const handle = find(job.type) ?? find('*')
  if (!handle) return { outcome: 'failed', error: `no function for the type ${job.type}` }
  let reply
  try {
    const result = await handle(job)
    reply = { outcome: 'finished', ...(result == null ? {} : { result: JSON.parse(json(result)) }) }
    if (Buffer.byteLength(JSON.stringify(reply)) > MIB - 100) throw new RangeError('the result has more than 1 MiB')
  } catch (error) {
    const message = String(error?.message ?? error).slice(0, 2000)
    if (error instanceof GiveUp) reply = { outcome: 'failed', error: message }
    else if (error instanceof Retry) reply = { outcome: 'retry', error: message, ...(error.after == null ? {} : { retry_after: duration(error.after) }) }
    else if (error instanceof Release) reply = { outcome: 'release', retry_after: duration(error.after), count: error.count }
    else {
      console.error(error)
      reply = { outcome: 'retry', error: `${error?.name ?? 'Error'}: ${message}` }
    }
  }
  try {
    if (connection && await leftOpen(connection) && reply.outcome === 'finished') {
      reply = { outcome: 'retry', error: 'the job left a transaction open, which was rolled back' }
    }
  } catch (error) {
    if (reply.outcome === 'finished') reply = { outcome: 'retry', error: `the connection is lost: ${error.message}` }
  }
  return reply
}

/** Says whether the connection has an open transaction, and rolls it back. */
async function leftOpen (connection) {
  if (typeof connection.query !== 'function') {
    const open = connection.inTransaction ?? connection.isTransaction
    if (open) connection.exec('ROLLBACK')
    return open
  }
  const db = typeof connection.promise === 'function' ? connection.promise() : connection
  try {
    await db.query('SET TRANSACTION READ WRITE') // an error within a transaction
    return false
  } catch (error) {
    if (error.errno !== 1568) throw error
  }
  await db.query('ROLLBACK')
  return true
}
