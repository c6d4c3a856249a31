// @ts-check
// One PostgreSQL server.
import { execFile } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { chown } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { controlledStore } from './controlled.js'
import { findPostgres } from './locations.js'
import { postgresQuery } from './postgres-wire.js'
import { ServerProcess, startServer } from './process.js'
import { requirePrograms } from './programs.js'
import { makeData } from './template.js'

const run = promisify(execFile)

// PostgreSQL refuses to run as root. The package brings this user along.
const account = 'postgres'

/**
 * @typedef {object} PostgresOptions
 * @property {readonly string[] | undefined} [args] More arguments for postgres, for example
 *   `['-c', 'max_connections=20']`. They win over those given here.
 * @property {PostgresServer | undefined} [standbyOf] It begins with a copy of this one's data and follows it.
 * @property {boolean | undefined} [clock] Whether it has a wall clock of its own, which `stepClock` sets.
 */

/** A PostgreSQL server that was started here. Its superuser `postgres` needs no password. */
export class PostgresServer extends ServerProcess {
  get host() {
    return '127.0.0.1'
  }

  get url() {
    return `postgres://postgres@${this.host}:${this.port}/postgres`
  }

  /**
   * Sends one query, or several with semicolons between them, over a connection of its own. Rejects with a QueryError
   * if the server refuses it.
   * @param {string} sql
   * @param {import('./postgres-wire.js').PostgresQueryOptions} [options]
   */
  query(sql, options) {
    return postgresQuery(this.port, sql, options)
  }
}

// A server that was killed leaves its segment of shared memory behind; the file in its data folder names it.
const removeSharedMemory = `
file="$1/data/postmaster.pid"
[ ! -f "$file" ] || ipcrm -m "$(sed -n '7s/.* //p' "$file")"
`

/** @returns {Promise<{ readonly uid: number, readonly gid: number } | undefined>} Undefined if it runs as this user. */
async function otherUser() {
  if (process.getuid?.() !== 0) return undefined
  const [uid, gid] = await Promise.all(
    ['-u', '-g'].map(async (flag) => (await run('id', [flag, account])).stdout),
  )
  return { uid: Number(uid), gid: Number(gid) }
}

const initArgs = ['-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync']

/**
 * The program that copies the data of a server which runs. Debian has it beside the server; elsewhere it is on PATH.
 * @param {string} postgres
 */
function basebackupOf(postgres) {
  const beside = join(dirname(realpathSync(postgres)), 'pg_basebackup')
  return existsSync(beside) ? beside : 'pg_basebackup'
}

/**
 * What makes a data folder that follows another server.
 * @param {PostgresServer} primary
 * @param {string} data
 */
function copyArgs({ host, port }, data) {
  const from = ['--host', host, '--port', String(port), '--username', 'postgres']
  return [...from, '--pgdata', data, '--write-recovery-conf', '--checkpoint', 'fast', '--no-sync']
}

/**
 * The settings of a server that is fast and yet keeps what it has committed when it is killed. Only a crash of the
 * whole machine would lose something without fsync, whereas synchronous_commit must stay on.
 * @param {import('./process.js').Place} place
 */
function settingsOf({ port }) {
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: 400,
    fsync: 'off',
    synchronous_commit: 'on',
    // Memory that is shared by a file goes with the folder; by default a killed server leaves it in /dev/shm.
    dynamic_shared_memory_type: 'mmap',
    // What the log says is looked at here, so it must not depend on the language of the machine.
    lc_messages: 'C',
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

/**
 * Starts one PostgreSQL server.
 * @param {PostgresOptions} [options]
 * @returns {Promise<PostgresServer>}
 */
export async function startPostgres({ args = [], clock, standbyOf } = {}) {
  requirePrograms(['postgres'])
  const { postgres, initdb } = /** @type {import('./locations.js').PostgresPrograms} */ (findPostgres())
  const user = await otherUser()
  const prefix =
    user === undefined ? [] : ['setpriv', `--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups']
  const [program, ...before] = [...prefix, postgres]
  return startServer(
    {
      name: 'postgres',
      program,
      clock,
      args: (place) => [...before, '-D', join(place.folder, 'data'), ...settingsOf(place), ...args],
      prepare: async ({ folder }) => {
        const own = async (/** @type {string} */ each) => user && chown(each, user.uid, user.gid)
        if (standbyOf === undefined) {
          const commands = (/** @type {string} */ data) => [[...prefix, initdb, '-D', data, ...initArgs]]
          const versionCommand = [postgres, '--version']
          return makeData({ name: 'postgres', versionCommand, prepare: own, commands }, folder)
        }
        await own(folder)
        const [copy, ...rest] = [...prefix, basebackupOf(postgres)]
        await run(copy, [...rest, ...copyArgs(standbyOf, join(folder, 'data'))], { cwd: '/' })
      },
      ready: ({ port, folder }) => answers(port, join(folder, 'data')),
      // This one does not wait until every client has left.
      stopSignal: 'SIGINT',
      cleanup: removeSharedMemory,
    },
    (plan, place) => new PostgresServer(plan, place),
  )
}

/**
 * Whether the server that answers on the port is the one that has this data. Somebody else's server can have the port
 * for as long as ours has not noticed.
 * @param {number} port
 * @param {string} data
 */
async function answers(port, data) {
  const [[found] = []] = await postgresQuery(port, 'show data_directory', { timeoutMs: 2_000 })
  return typeof found === 'string' && realpathSync(found) === realpathSync(data)
}

export const postgres = controlledStore('postgres', { programs: ['postgres'], start: () => startPostgres() })
