/** Enqueue jobs in your own transaction on MariaDB, MySQL or SQLite, and run them for hipq. */

/** number is that of the error in the database, or on SQLite the exit code of the command; 0 is none. */
export class HipqError extends Error {
  readonly number: number
}

/** A live job has the type and the key. */
export class DuplicateJob extends HipqError {}

/** hipq refused a call, and changed nothing. */
export class Refused extends HipqError {}

export class JobNotFound extends Refused {}

export interface PushOptions {
  /** Unique among the live jobs of the type. */
  key?: string
  at?: Date
  /** Seconds from now, by the database's clock. */
  in?: number
  /** The lower number runs first. */
  priority?: number
  /** Seconds. */
  timeout?: number
  /** The weight against the queue's limits: throttle_factor. */
  weight?: number
  /** time_windows, such as ['mon-fri 09:00-17:30']. */
  windows?: string[]
  shardKey?: string
  /** data is text, not JSON. */
  raw?: boolean
  /** error (the default) throws DuplicateJob; ignore returns the live job's id; replace replaces a job that has not started. */
  onDuplicate?: 'error' | 'ignore' | 'replace'
}

/** A job's id, or the type and key of the live job. */
export type JobName = number | { type: string, key: string }

export interface JobRecord {
  id: number
  job_type: string
  job_key: string
  job_data: string | null
  state: 'initial' | 'running' | 'error' | 'retry' | 'final'
  attempt: number
  priority: number | null
  timeout: number | null
  scheduled_run_time: Date
  create_time: Date
  start_time: Date | null
  update_time: Date
  worker_id: string | null
  error: string | null
  result: string | null
  retry_of: number | null
  retried_as: number | null
  [column: string]: unknown
}

/** What prepare() gives: better-sqlite3's Database, or DatabaseSync of node:sqlite. */
export interface SQLiteConnection {
  prepare (sql: string): unknown
  exec (sql: string): unknown
}

/** A connection or pool of mysql2 or mysql2/promise. */
export interface MySQLConnection {
  query (...args: any[]): any
}

export interface ClientOptions {
  /** Tables with other names than <instance>_<queue>, by queue. */
  tables?: Record<string, string>
  /** hipq and its config, which on SQLite do what has no procedure. */
  command?: string
  config?: string
}

type Of<C, T> = C extends MySQLConnection ? Promise<T> : T

/** Works on your own connection and in your transaction. On SQLite all methods are synchronous. */
export class Client<C extends MySQLConnection | SQLiteConnection = MySQLConnection> {
  constructor (connection: C, instance: string, options?: ClientOptions)
  /** Returns the id. */
  push (queue: string, type: string, data?: unknown, options?: PushOptions): Of<C, number>
  /** Returns the number of jobs. */
  pushMany (queue: string, jobs: Iterable<{ type: string, data?: unknown } & Omit<PushOptions, 'onDuplicate'>>): Of<C, number>
  get (queue: string, job: JobName): Of<C, JobRecord | null>
  /** This method and the next ones return the job's state. */
  cancel (queue: string, job: JobName, options?: { running?: boolean }): Of<C, string>
  retry (queue: string, job: JobName): Of<C, string>
  dismiss (queue: string, job: JobName): Of<C, string>
  reschedule (queue: string, job: JobName, when: { at: Date } | { in: number }): Of<C, string>
  /** Ends the attempt of a job that awaits its answer. release is no error, and uses up no attempt unless count is true. */
  answer (queue: string, type: string, key: string, outcome?: 'finished' | 'retry' | 'failed' | 'release', result?: unknown,
    options?: { error?: string, retryAfter?: number, count?: boolean }): Of<C, string>
}

/** Thrown by a job: it fails for good. */
export class GiveUp extends Error {}

/** An error of the job. It runs again after so many seconds, or as its retry policy says. */
export class Retry extends Error {
  constructor (message?: string, after?: number)
  readonly after?: number
}

/** No error: the job runs again after so many seconds. count: it uses up an attempt. */
export class Release extends Error {
  constructor (after?: number, options?: { count?: boolean })
  readonly after: number
  readonly count: boolean
}

export interface Job<Data = any> {
  readonly id: number
  readonly queue: string
  readonly type: string
  readonly key: string
  /** Decoded JSON, or a text that is none. */
  readonly data: Data
  readonly attempt: number
  /** Earlier attempts that ended with their worker. */
  readonly interrupts: number
  readonly token: string
  /** Seconds. */
  readonly timeout: number
  /** Aborted when hipq tells the program to end. */
  readonly signal: AbortSignal
  progress (percent: number, note?: string): void
}

/** Runs a stream's jobs until standard input ends. '*' serves all types that have no function. */
export function run (functions: Record<string, (job: Job) => unknown>, options?: { connection?: MySQLConnection | SQLiteConnection }): Promise<void>
