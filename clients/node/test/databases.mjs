// Connections of each driver to the database that the environment names.
const server = /^(\w+)(?::(.*))?@tcp\(([^:]+):(\d+)\)\//.exec(process.env.HIPQ_TEST_MYSQL_DSN ?? '')

export const drivers = {
  'mysql2 promise': 'mysql2', 'mysql2 callback': 'mysql2', 'mysql2 pool': 'mysql2', 'better-sqlite3': 'better-sqlite3', 'node:sqlite': 'node:sqlite'
}

if (process.env.HIPQ_TEST_QUICK) ['mysql2 callback', 'mysql2 pool', 'node:sqlite'].forEach(name => delete drivers[name])

export function to (database, more) {
  const [, user, password = '', host, port] = server
  return { user, password, host, port: Number(port), database, ...more }
}

/** libsql has the API of better-sqlite3, and comes compiled; so it stands in for it where that isn't installed. */
export const load = module => import(module).catch(error => module === 'better-sqlite3' ? import('libsql') : Promise.reject(error))

/** Returns the connection, a function that queries over it, and one that ends it. */
export async function connect (driver, more = {}) {
  if (driver === 'better-sqlite3' || driver === 'node:sqlite') {
    const { default: Database, DatabaseSync } = await load(driver)
    const db = Database && !DatabaseSync ? new Database(process.env.FILE) : new DatabaseSync(process.env.FILE)
    db.exec('PRAGMA busy_timeout = 20000')
    const query = sql => /^SELECT/.test(sql) ? db.prepare(sql).all() : db.exec(sql)
    return { db, query, end: () => db.close() }
  }
  const { createConnection, createPool } = (await import('mysql2')).default
  const options = to(process.env.DATABASE, more)
  const callback = driver === 'mysql2 pool' ? createPool({ ...options, connectionLimit: 1 }) : createConnection(options)
  const promise = callback.promise()
  return { db: driver === 'mysql2 callback' ? callback : promise, query: async sql => (await promise.query(sql))[0], end: () => promise.end() }
}
