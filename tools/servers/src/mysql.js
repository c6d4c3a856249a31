// @ts-check
// One MySQL server.
import { join } from 'node:path'
import { controlledStore } from './controlled.js'
import { findMysql } from './locations.js'
import { database, startMysqlServer, userArgs } from './mysql-family.js'
import { requirePrograms } from './programs.js'

// The first user can come from `localhost` only, which an address is not as long as names are not looked up.
const setUp = [
  `create database ${database};`,
  `create user 'root'@'127.0.0.1' identified by '';`,
  `grant all on *.* to 'root'@'127.0.0.1' with grant option;`,
]

const logSize = '--loose-innodb-redo-log-capacity=32M'

/**
 * A program that was unpacked does not find its files by itself.
 * @param {string | undefined} root
 */
function filesOf(root) {
  if (root === undefined) return []
  const usr = join(root, 'usr')
  return [
    `--basedir=${usr}`,
    `--lc-messages-dir=${join(usr, 'share', 'mysql')}`,
    `--character-sets-dir=${join(usr, 'share', 'mysql', 'charsets')}`,
    `--plugin-dir=${join(usr, 'lib', 'mysql', 'plugin')}`,
  ]
}

/**
 * Starts one MySQL server.
 * @param {import('./mysql-family.js').MysqlOptions} [options]
 */
export async function startMysql(options = {}) {
  requirePrograms(['mysqld'])
  const { command, root } = /** @type {import('./locations.js').FoundProgram} */ (findMysql())
  const own = [...filesOf(root), logSize]
  /** @param {string} data @param {string} setUpFile */
  const initArgs = (data, setUpFile) => [
    '--no-defaults',
    `--datadir=${data}`,
    '--initialize-insecure',
    `--init-file=${setUpFile}`,
  ]
  return startMysqlServer(
    {
      name: 'mysql',
      command,
      args: [...own, '--mysqlx=OFF', '--secure-file-priv=NULL'],
      recipe: {
        commands: (...files) => [[...command, ...initArgs(...files), ...userArgs, ...own]],
        setUp: `${setUp.join('\n')}\n`,
        // It has the identifier of the server.
        forget: ['auto.cnf'],
      },
    },
    options,
  )
}

export const mysql = controlledStore('mysql', { programs: ['mysqld'], start: () => startMysql() })
