// Tests of hipq.mjs: node --test clients/node/test
//
// They run a real hipq: the one in HIPQ_TEST_HIPQ, else one that they build. HIPQ_TEST_MYSQL_DSN is a server, such as
// root@tcp(127.0.0.1:3306)/; without it they use only SQLite. Drivers that are missing are skipped, unless
// HIPQ_TEST_REQUIRE_MYSQL is set; node:sqlite always, because it needs Node.js 22.
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, DuplicateJob, HipqError, JobNotFound, Refused } from '../hipq.mjs'
import { connect, drivers, load, to } from './databases.mjs'

const here = import.meta.dirname ?? new URL('.', import.meta.url).pathname
const types = ['echo', 'leave', 'keep', 'give_up', 'retry', 'release', 'fail', 'unsendable', 'large', 'sleep', 'unknown', 'send']
let binary = process.env.HIPQ_TEST_HIPQ
if (!binary) {
  binary = join(mkdtempSync(join(tmpdir(), 'hipq-')), 'hipq')
  execFileSync('go', ['build', '-o', binary, '.'], { cwd: join(here, '..', '..', '..') })
}

for (const [driver, module] of Object.entries(drivers)) {
  const sqlite = module.includes('sqlite')
  const missing = sqlite || process.env.HIPQ_TEST_MYSQL_DSN ? await load(module).then(() => false, error => error.message) : 'HIPQ_TEST_MYSQL_DSN is not set'
  const required = process.env.HIPQ_TEST_REQUIRE_MYSQL && module !== 'node:sqlite'
  describe(driver, { skip: !required && missing, concurrency: 1 }, () => tests(driver, sqlite))
}

function tests (driver, sqlite) {
  let dir, db, query, end, jobs, admin

  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'hipq-'))
    process.env.FILE = join(dir, 'hipq.db')
    process.env.DRIVER = driver
    process.env.HIPQ_CONFIG = join(dir, 'hipq.yaml')
    for (const name of ['CONNECTION', 'STAR', 'TZ']) delete process.env[name]
    let database = { driver: 'sqlite', path: 'hipq.db' }
    if (!sqlite) {
      admin = (await import('mysql2/promise')).createConnection(to())
      admin = await admin
      process.env.DATABASE = 'node_' + randomUUID().slice(0, 8)
      await admin.query(`CREATE DATABASE ${process.env.DATABASE} CHARACTER SET utf8mb4`)
      database = { driver: 'mysql', dsn: process.env.HIPQ_TEST_MYSQL_DSN + process.env.DATABASE }
    }
    config(1, database)
    hipq('init', '--yes');
    ({ db, query, end } = await connect(driver))
    jobs = new Client(db, 'shop', { command: binary })
  })

  function config (inFlight, database = JSON.parse(/^database: (.*)$/m.exec(yaml)[1])) {
    const handler = {
      stream: [process.execPath, join(here, 'worker.mjs')], processes: 1, in_flight: inFlight,
      env: ['DRIVER', 'FILE', 'DATABASE', 'HIPQ_TEST_MYSQL_DSN', 'CONNECTION', 'STAR']
    }
    yaml = `name: shop
database: ${JSON.stringify(database)}
timezone: UTC
worker: {concurrency: ${inFlight}, grace: 3s}
timeout: 20s
retry: {attempts: 2, delay: 1s, jitter: 0}
queues:
  - name: emails
    job_types: ${JSON.stringify(types.map(name => ({ name, handler })))}
  - name: requests
    job_types: [{name: upload, async: true, timeout: 1m, handler: {exec: ["true"]}}]
`
    writeFileSync(process.env.HIPQ_CONFIG, yaml)
  }
  let yaml = ''

  afterEach(async () => {
    await end()
    if (admin) {
      await admin.query(`DROP DATABASE ${process.env.DATABASE}`)
      await admin.end()
      admin = undefined
    }
    rmSync(dir, { recursive: true })
  })

  function hipq (...args) {
    const done = spawnSync(binary, args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8', cwd: dir, maxBuffer: 1 << 26 })
    assert.ok(done.status === 0 || (args[0] === 'work' && done.status === 1), done.stdout + done.stderr)
    return done.stdout
  }

  const all = (queue = 'emails') => hipq('jobs', queue, '--json', '--limit', '2000').split('\n').filter(Boolean).map(line => JSON.parse(line))
  const byKey = () => Object.fromEntries(all().map(job => [job.job_key, job]))
  const states = (queue, id) => hipq('activity', '--queue', queue, '--job', String(id), '--json').split('\n').filter(Boolean).map(line => JSON.parse(line).state)
  const shown = id => JSON.parse(hipq('show', 'emails', String(id), '--json'))

  async function work () {
    for (let i = 0; i < 20; i++) {
      hipq('work')
      const found = all()
      if (found.every(job => job.state === 'final')) return new Map(found.map(job => [job.id, job]))
      await sleep(300)
    }
    assert.fail(`jobs are not final: ${JSON.stringify(all())}`)
  }

  const from = job => (new Date(job.scheduled_run_time) - Date.now()) / 1000

  it('adds a job in the transaction', async () => {
    await query('BEGIN')
    const lost = await jobs.push('emails', 'send', { order: 4710 })
    assert.equal(typeof lost, 'number')
    await query('ROLLBACK')
    await query('BEGIN')
    const data = { to: 'ann@example.org', text: 'Grüße, 猫 😀 \\ \' " % ? :x \n' }
    const id = await jobs.push('emails', 'send', data, { key: 'Schlüssel 🔑' })
    await query('COMMIT')
    assert.deepEqual(all().map(job => [job.id, job.job_key, job.job_data]), [[id, 'Schlüssel 🔑', data]])
  })

  it('takes options', async () => {
    const at = new Date('2035-03-01T01:30:00.123+05:30')
    await jobs.push('emails', 'send', null, { key: 'at', at, priority: -5, timeout: 7, weight: 3, windows: ['mon-fri 09:00-17:30'], shardKey: 's' })
    await jobs.push('emails', 'send', undefined, { key: 'in', in: 3600.5 })
    await jobs.push('emails', 'send', 'text', { key: 'text' })
    await jobs.push('emails', 'send', '<xml/>', { raw: true, key: 'raw' })
    const found = byKey()
    const { scheduled_run_time: when, priority, timeout_ms: ms, throttle_factor: weight, time_windows: windows, shard_key: shardKey } = found.at
    assert.deepEqual([new Date(when), priority, ms, weight, windows, shardKey], [at, -5, 7000, 3, ['mon-fri 09:00-17:30'], 's'])
    assert.ok(Math.abs(from(found.in) - 3600.5) < 30)
    assert.deepEqual(['at', 'text', 'raw'].map(key => found[key].job_data), [null, '"text"', '<xml/>'])
  })

  it('tells duplicates', async () => {
    await query('BEGIN')
    const id = await jobs.push('emails', 'send', null, { key: 'one' })
    const push = async (...more) => jobs.push(...more)
    await assert.rejects(push('emails', 'send', null, { key: 'one' }), error => {
      assert.ok(error instanceof DuplicateJob)
      assert.deepEqual([error.message, error.name], ['queue emails: a live job of type send has the key one', 'DuplicateJob'])
      return true
    })
    await jobs.push('emails', 'echo', null, { key: 'one' }) // another type; the transaction goes on
    assert.equal(await jobs.push('emails', 'send', null, { key: 'one', onDuplicate: 'ignore' }), id)
    await assert.rejects(async () => jobs.pushMany('emails', [{ type: 'send', key: 'two' }, { type: 'send', key: 'one' }]), DuplicateJob)
    await query('COMMIT')
    assert.deepEqual(all().map(job => job.job_type + job.job_key).sort(), ['echoone', 'sendone'])
  })

  it('replaces a job', { skip: sqlite }, async () => {
    const id = await jobs.push('emails', 'send', 1, { key: 'one' })
    const next = await jobs.push('emails', 'send', 2, { key: 'one', onDuplicate: 'replace', in: 60 })
    const live = await jobs.get('emails', { type: 'send', key: 'one' })
    assert.deepEqual([live.id, live.job_data, live.state], [next, '2', 'initial'])
    assert.ok(next >= id)
  })

  it('passes other errors through', async () => {
    for (const wrong of [['nowhere', 'send'], ['emails', 's'.repeat(300)], ['emails', 'send', 'x'.repeat(1 << 20)]]) {
      await assert.rejects(async () => jobs.push(...wrong), error => !(error instanceof HipqError) && !(error instanceof TypeError))
    }
    assert.deepEqual(all(), [])
  })

  it('refuses invalid jobs', async () => {
    const wrong = [{ type: '' }, { type: 'NONE' }, { type: null }, { key: '' }, { key: 'a\0b' }, { key: 5 }, { key: '\ud800' }, { shardKey: '' },
      { priority: 2 ** 31 }, { priority: 1.5 }, { priority: '1' }, { timeout: 0 }, { timeout: 316224001 }, { weight: -1 }, { at: '2030-01-01' },
      { at: new Date(NaN) }, { at: new Date(-1) }, { in: -1 }, { in: 1e12 }, { in: NaN }, { in: 1, at: new Date() }, { data: NaN }, { data: () => 1 },
      { data: 1n }, { data: '', raw: true }, { data: 'NONE', raw: true }, { type: 'se\nnd' }, { colour: 'red' }, { onDuplicate: 'never' }]
    for (const { type = 'send', data, ...options } of wrong) {
      await assert.rejects(async () => jobs.push('emails', options.type === undefined && type, data, options), TypeError, JSON.stringify(options))
    }
    assert.deepEqual(all(), [])
  })

  it('adds many jobs', async () => {
    const at = new Date('2035-01-01T00:00:00Z')
    const many = Array.from({ length: 1100 }, (_, n) => ({ type: 'send', data: { n, ü: "'" }, key: `k${n}`, ...(n % 2 ? { at } : { priority: n }) }))
    await query('BEGIN')
    assert.equal(await jobs.pushMany('emails', many), 1100)
    await query('ROLLBACK')
    await query('BEGIN')
    assert.equal(await jobs.pushMany('emails', many.values()), 1100)
    assert.equal(await jobs.pushMany('emails', Array(4).fill({ type: 'send', data: '"'.repeat(700000), raw: true })), 4)
    assert.equal(await jobs.pushMany('emails', [{ type: 'send' }, { type: 'echo', key: 'mixed', in: 60 }]), 2)
    assert.equal(await jobs.pushMany('emails', []), 0)
    await query('COMMIT')
    const found = byKey()
    assert.equal(Object.keys(found).length, 1106)
    for (const n of [0, 1, 2, 1099]) {
      assert.deepEqual(found[`k${n}`].job_data, { n, ü: "'" })
      assert.equal(found[`k${n}`].priority, n % 2 ? null : n)
      assert.equal(+new Date(found[`k${n}`].scheduled_run_time) === +at, n % 2 === 1)
    }
  })

  it('takes other names of tables', async () => {
    const id = await new Client(db, 'other', { tables: { mails: 'shop_emails' } }).push('mails', 'send')
    assert.deepEqual(all().map(job => job.id), [id])
  })

  it('acts on jobs', async () => {
    const id = await jobs.push('emails', 'send', { a: 1 }, { key: 'one', in: 3600 })
    const job = await jobs.get('emails', id)
    assert.deepEqual([job.id, job.job_type, job.job_key, job.job_data, job.state, job.error], [id, 'send', 'one', '{"a":1}', 'initial', null])
    assert.ok(job.scheduled_run_time instanceof Date && Math.abs(from(job) - 3600) < 30)
    assert.equal((await jobs.get('emails', { type: 'send', key: 'one' })).id, id)
    assert.equal(await jobs.get('emails', 99), null)
    assert.equal(await jobs.get('emails', { type: 'send', key: 'two' }), null)
    const at = new Date('2035-01-01T00:00:00Z')
    assert.equal(await jobs.reschedule('emails', id, { at }), 'initial')
    assert.deepEqual((await jobs.get('emails', id)).scheduled_run_time, at)
    await jobs.reschedule('emails', { type: 'send', key: 'one' }, { in: 60 })
    assert.ok(Math.abs(from(await jobs.get('emails', id)) - 60) < 30)
    assert.equal(await jobs.cancel('emails', id), 'final')
    assert.equal((await jobs.get('emails', id)).error, 'cancelled')
    await assert.rejects(async () => jobs.cancel('emails', id), error => error instanceof Refused && !(error instanceof JobNotFound))
    await assert.rejects(async () => jobs.cancel('emails', 99), JobNotFound)
    const failed = await jobs.push('emails', 'give_up', null, { key: 'two' })
    hipq('work')
    assert.equal((await jobs.get('emails', failed)).error, 'no such customer')
    await jobs.retry('emails', failed)
    const again = await jobs.get('emails', { type: 'give_up', key: 'two' })
    assert.deepEqual([again.state, again.retry_of], ['initial', failed])
    hipq('work')
    await jobs.dismiss('emails', again.id)
    await query('SELECT 1') // all results of the calls were read
  })

  it('answers', async () => {
    for (const key of ['a', 'b', 'c', 'd', 'e']) await jobs.push('requests', 'upload', null, { key })
    hipq('work')
    await jobs.answer('requests', 'upload', 'a', 'finished', { receipt: 17 })
    await jobs.answer('requests', 'upload', 'b', 'failed', null, { error: 'no such customer' })
    await jobs.answer('requests', 'upload', 'c', 'retry', null, { error: 'busy', retryAfter: 60.5 })
    assert.equal(await jobs.answer('requests', 'upload', 'd', 'release', null, { retryAfter: 3600 }), 'retry')
    await jobs.answer('requests', 'upload', 'e', 'release', null, { count: true })
    await assert.rejects(async () => jobs.answer('requests', 'upload', 'f'), JobNotFound)
    hipq('work') // on SQLite, a worker decides on the retry
    const [c, d] = [await jobs.get('requests', { type: 'upload', key: 'c' }), await jobs.get('requests', { type: 'upload', key: 'd' })]
    assert.deepEqual([c.error, d.error], ['busy', null])
    assert.ok(Math.abs(from(c) - 60.5) < 30 && Math.abs(from(d) - 3600) < 30)
    assert.deepEqual(states('requests', d.id), ['added', 'starting', 'released'])
    const [a, b] = [await jobs.get('requests', { type: 'upload', key: 'a' }), await jobs.get('requests', { type: 'upload', key: 'b' })]
    assert.deepEqual([a.state, JSON.parse(a.result), b.state, b.error], ['final', { receipt: 17 }, 'final', 'no such customer'])
  })

  it('does not mind zones, modes and character sets', { skip: sqlite }, async () => {
    const at = new Date('2031-07-01T12:00:00Z')
    const text = "'; DROP TABLE x; -- \\' \" \\ ü😀"
    for (const set of ["SET time_zone = '+05:30'", "SET sql_mode = ''", "SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'", 'SET NAMES latin1']) {
      await query(set)
      await jobs.push('emails', 'send', [text], { key: set + text, at })
      await jobs.push('emails', 'send', [text], { key: 'in' + set, in: 60, onDuplicate: 'ignore' })
      await jobs.push('emails', 'send', [text], { key: 'at' + set, at, onDuplicate: 'ignore' })
      const found = byKey()
      assert.deepEqual([found[set + text].job_data, found['at' + set].job_data], [[text], [text]])
      assert.deepEqual([found[set + text], found['at' + set]].map(job => new Date(job.scheduled_run_time)), [at, at])
      assert.ok(Math.abs(from(found['in' + set]) - 60) < 30)
    }
    await query("SET sql_mode = ''")
    for (const { type = 'send', data, ...options } of [{ type: 's'.repeat(300) }, { key: 'k'.repeat(300) }, { data: 'x'.repeat(1 << 20) }, { windows: Array(1000).fill('mon') }]) {
      await assert.rejects(async () => jobs.push('emails', type, data, options))
    }
  })

  it('does not mind options of the driver and the zone of the process', { skip: sqlite || driver === 'mysql2 pool' }, async () => {
    process.env.TZ = 'America/St_Johns'
    for (const more of [{ timezone: '+09:00' }, { dateStrings: true }, { rowsAsArray: true }, { namedPlaceholders: true }, { charset: 'latin1' }]) {
      const other = await connect(driver, more)
      const jobs = new Client(other.db, 'shop', { command: binary })
      const at = new Date(2031, 6, 1, 12)
      const id = await jobs.push('emails', 'send', 'ü', { key: JSON.stringify(more), at, onDuplicate: 'ignore' })
      assert.deepEqual((await jobs.get('emails', id)).scheduled_run_time, at)
      assert.equal(await jobs.push('emails', 'send', 'ü', { key: JSON.stringify(more), onDuplicate: 'ignore' }), id)
      await other.end()
    }
  })

  it('runs jobs', async () => {
    const ids = {}
    for (const name of ['echo', 'give_up', 'retry', 'release', 'fail', 'unsendable', 'large', 'unknown']) {
      ids[name] = await jobs.push('emails', name, { x: ['ü', 1.5, null] }, { key: join(dir, name) })
    }
    const text = await jobs.push('emails', 'echo', '5')
    const raw = await jobs.push('emails', 'echo', '<xml/>', { raw: true })
    const found = await work()
    const got = Object.fromEntries(Object.entries(ids).map(([name, id]) => [name, [found.get(id).attempt, found.get(id).error]]))
    assert.deepEqual(got, {
      echo: [1, null], give_up: [1, 'no such customer'], retry: [2, null], release: [2, null], fail: [2, 'RangeError: ü'],
      unsendable: [2, 'TypeError: Do not know how to serialize a BigInt'], large: [2, 'RangeError: the result has more than 1 MiB'],
      unknown: [1, 'no function for the type unknown']
    })
    assert.deepEqual(states('emails', ids.release), ['added', 'starting', 'released', 'starting', 'finished'])
    const echo = shown(ids.echo)
    assert.deepEqual(echo.result, { data: { x: ['ü', 1.5, null] }, key: join(dir, 'echo'), attempt: 1, timeout: 20 })
    assert.match(JSON.stringify(echo), /outcome.{1,8}failed/) // in the log
    assert.match(JSON.stringify(shown(ids.fail)), /worker.mjs/)
    assert.deepEqual(shown(ids.release).result, { attempt: 2, interrupts: 0 })
    assert.deepEqual([text, raw].map(id => shown(id).result.data), ['5', '<xml/>'])
  })

  it('serves all types with a star', async () => {
    process.env.STAR = '1'
    const id = await jobs.push('emails', 'unknown')
    await work()
    assert.equal(shown(id).result, 'unknown')
  })

  it('rolls back what a job left open', { skip: driver === 'mysql2 pool' }, async () => {
    process.env.CONNECTION = 'end'
    await query('CREATE TABLE trace (note VARCHAR(20))')
    const left = await jobs.push('emails', 'leave')
    const kept = await jobs.push('emails', 'keep')
    const found = await work()
    assert.deepEqual([left, kept].map(id => [found.get(id).attempt, found.get(id).error]), [
      [2, 'the job left a transaction open, which was rolled back'], [1, null]])
    assert.deepEqual((await query('SELECT note FROM trace')).map(row => row.note), ['kept'])
  })

  it('runs several jobs at once', async () => {
    config(8)
    hipq('init')
    const ids = []
    for (let i = 0; i < 8; i++) ids.push(await jobs.push('emails', 'sleep', 700, { key: join(dir, `flag${i}`) }))
    await work()
    assert.ok(Math.max(...ids.map(id => shown(id).result.most)) >= 4)
  })

  it('lets a job end after a TERM', async () => {
    const id = await jobs.push('emails', 'sleep', 1500, { key: join(dir, 'flag') })
    const worker = spawn(binary, ['work'], { stdio: 'ignore', cwd: dir })
    while (!existsSync(join(dir, 'flag'))) await sleep(50)
    const ended = new Promise(resolve => worker.on('exit', resolve))
    worker.kill('SIGTERM')
    await ended
    const [job] = all()
    assert.deepEqual([job.id, job.state, job.attempt, job.error], [id, 'final', 1, null])
  })

}
