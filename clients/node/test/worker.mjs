// The program of the tests' streams.
import { existsSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { GiveUp, Release, Retry, run } from '../hipq.mjs'
import { connect } from './databases.mjs'

const { DRIVER, CONNECTION, STAR } = process.env
const { db, query, end } = await connect(DRIVER)
let most = 0
let now = 0

const functions = {
  async echo (job) {
    console.log('{"outcome": "failed"}') // noise, which must not be a reply
    job.progress(50, 'half')
    return { data: job.data, key: job.key, attempt: job.attempt, timeout: job.timeout }
  },
  async leave () {
    await query('BEGIN')
    await query("INSERT INTO trace (note) VALUES ('lost')")
  },
  async keep () {
    await query("INSERT INTO trace (note) VALUES ('kept')")
  },
  give_up () { throw new GiveUp('no such customer') },
  retry (job) { if (job.attempt === 1) throw new Retry('busy', 0) },
  release (job) {
    if (existsSync(job.key)) return { attempt: job.attempt, interrupts: job.interrupts }
    writeFileSync(job.key, '')
    throw new Release(0)
  },
  fail () { throw new RangeError('ü') },
  unsendable () { return { n: 10n } },
  large () { return 'x'.repeat(1 << 20) },
  async sleep (job) {
    now++
    most = Math.max(most, now)
    writeFileSync(job.key, '')
    await sleep(job.data)
    now--
    return { most, stopped: job.signal.aborted }
  }
}
const all = STAR ? { ...functions, '*': job => job.type } : functions
await run(all, CONNECTION ? { connection: db } : {})
if (CONNECTION === 'end') await end()
