// @ts-check
// A pooler before a PostgreSQL server, as many programs have between them and their database.
import { execFile } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { chown, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { postgresQuery } from './postgres-wire.js'
import { ServerProcess, startServer } from './process.js'
import { findPgbouncer, requirePrograms } from './programs.js'

const run = promisify(execFile)

// It refuses to run as root. Debian runs it as this user, who comes with it.
const account = 'postgres'

/**
 * @typedef {object} PgbouncerOptions
 * @property {number} port The port of the PostgreSQL server behind it, on the loopback address.
 * @property {'transaction' | 'session' | 'statement' | undefined} [mode] How long a client keeps a connection of the
 *   server; `transaction` unless given.
 * @property {Readonly<Record<string, string | number>> | undefined} [settings] More settings of its section
 *   `[pgbouncer]`. They win over those given here.
 */

/** A pooler that was started here. It lets everybody in as `postgres`. */
export class Pgbouncer extends ServerProcess {
  get host() {
    return '127.0.0.1'
  }

  get url() {
    return `postgres://postgres@${this.host}:${this.port}/postgres`
  }
}

/**
 * @param {import('./process.js').Place} place
 * @param {PgbouncerOptions} options
 */
function configuration({ port, folder }, { port: serverPort, mode = 'transaction', settings = {} }) {
  const own = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'trust',
    auth_file: join(folder, 'users.txt'),
    admin_users: 'postgres',
    pool_mode: mode,
    ...settings,
  }
  const lines = Object.entries(own).map(([name, value]) => `${name} = ${value}`)
  const server = `* = host=127.0.0.1 port=${serverPort} user=postgres`
  return ['[databases]', server, '[pgbouncer]', ...lines, ''].join('\n')
}

/**
 * Starts a pooler before a PostgreSQL server.
 * @param {PgbouncerOptions} options
 * @returns {Promise<Pgbouncer>}
 */
export async function startPgbouncer(options) {
  requirePrograms(['pgbouncer'])
  const isRoot = process.getuid?.() === 0
  const ids = isRoot ? await Promise.all(['-u', '-g'].map(idOfAccount)) : []
  const [uid = 0, gid = 0] = ids
  const [program, ...before] = [
    ...(isRoot ? ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'] : []),
    /** @type {string} */ (findPgbouncer()),
  ]
  return startServer(
    {
      name: 'pgbouncer',
      program: /** @type {string} */ (program),
      args: ({ folder }) => [...before, join(folder, 'pgbouncer.ini')],
      async prepare(place) {
        await writeFile(join(place.folder, 'pgbouncer.ini'), configuration(place, options))
        await writeFile(join(place.folder, 'users.txt'), '"postgres" ""\n')
        if (isRoot) await chown(place.folder, uid, gid)
      },
      ready: ({ port, folder }) => answers(port, join(folder, 'pgbouncer.ini')),
    },
    (plan, place) => new Pgbouncer(plan, place),
  )
}

/** @param {string} flag */
async function idOfAccount(flag) {
  return Number((await run('id', [flag, account])).stdout)
}

/**
 * Whether the pooler that answers on the port is the one with this configuration, and reaches its server.
 * @param {number} port
 * @param {string} file
 */
async function answers(port, file) {
  const settings = await postgresQuery(port, 'show config', { database: 'pgbouncer', timeoutMs: 2_000 })
  const found = settings.find(([name]) => name === 'conffile')?.[1]
  if (typeof found !== 'string' || realpathSync(found) !== realpathSync(file)) return false
  await postgresQuery(port, 'select 1', { timeoutMs: 2_000 })
  return true
}
