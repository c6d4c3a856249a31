// @ts-check
// What the servers of MySQL and of MariaDB have in common.
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { mysqlQuery } from './mysql-wire.js'
import { ServerProcess, startServer } from './process.js'
import { makeData } from './template.js'

/**
 * @typedef {object} MysqlOptions
 * @property {readonly string[] | undefined} [args] More arguments for the server, for example `['--wait-timeout=5']`.
 *   They win over those given here.
 * @property {boolean | undefined} [clock] Whether it has a wall clock of its own, which `stepClock` sets.
 */

/** A MySQL or MariaDB server that was started here. Its user `root` needs no password, and a database is there. */
export class MysqlServer extends ServerProcess {
  get host() {
    return '127.0.0.1'
  }

  get url() {
    return `mysql://root@${this.host}:${this.port}/${database}`
  }

  /**
   * Sends one query over a connection of its own. Rejects with a QueryError if the server refuses it.
   * @param {string} sql
   * @param {import('./mysql-wire.js').MysqlQueryOptions} [options]
   */
  query(sql, options) {
    return mysqlQuery(this.port, sql, { database, ...options })
  }
}

export const database = 'holdfast'

/** Both refuse to run as root unless they are told to. */
export const userArgs = process.getuid?.() === 0 ? ['--user=root'] : []

/**
 * The settings of a server that is fast and yet keeps what it has committed when it is killed: the log is written at
 * every commit, though not forced to the disk. It is small, since it is copied for every server.
 */
const settings = [
  '--bind-address=127.0.0.1',
  '--skip-name-resolve',
  '--max-connections=400',
  '--innodb-flush-log-at-trx-commit=2',
  '--sync-binlog=0',
  '--skip-log-bin',
  '--innodb-buffer-pool-size=64M',
  // The machine has a limit for this that a few servers together exceed.
  '--innodb-use-native-aio=OFF',
  // It takes hundreds of megabytes.
  '--performance-schema=OFF',
]

/** @param {import('./process.js').Place} place */
const placeArgs = ({ port, folder }) => [
  '--no-defaults',
  ...userArgs,
  `--port=${port}`,
  `--datadir=${join(folder, 'data')}`,
  `--socket=${join(folder, 'socket')}`,
  `--pid-file=${join(folder, 'pid')}`,
]

/**
 * @param {object} family
 * @param {string} family.name
 * @param {readonly string[]} family.command The program with the arguments that it always needs.
 * @param {readonly string[]} family.args What only this one of the two understands.
 * @param {Omit<import('./template.js').DataRecipe, 'name' | 'versionCommand'>} family.recipe
 * @param {MysqlOptions} options
 * @returns {Promise<MysqlServer>}
 */
export function startMysqlServer({ name, command, args: own, recipe }, { args = [], clock }) {
  const [program = '', ...before] = command
  return startServer(
    {
      name,
      program,
      clock,
      args: (place) => [...before, ...placeArgs(place), ...settings, ...own, ...args],
      prepare: ({ folder }) =>
        makeData({ name, versionCommand: [...command, '--no-defaults', '--version'], ...recipe }, folder),
      ready: ({ port, folder }) => answers(port, join(folder, 'data')),
    },
    (plan, place) => new MysqlServer(plan, place),
  )
}

/**
 * Whether the server that answers on the port is the one that has this data. Somebody else's server can have the port
 * for as long as ours has not noticed.
 * @param {number} port
 * @param {string} data
 */
async function answers(port, data) {
  const [[found] = []] = await mysqlQuery(port, 'select @@datadir', { timeoutMs: 2_000 })
  return typeof found === 'string' && realpathSync(found) === realpathSync(data)
}
