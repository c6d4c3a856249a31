// @ts-check
// One MariaDB server.
import { controlledStore } from './controlled.js'
import { findMariadb } from './locations.js'
import { database, startMysqlServer, userArgs } from './mysql-family.js'
import { requirePrograms } from './programs.js'

const logSize = '--innodb-log-file-size=16M'

/**
 * Starts one MariaDB server.
 * @param {import('./mysql-family.js').MysqlOptions} [options]
 */
export async function startMariadb(options = {}) {
  requirePrograms(['mariadbd'])
  const { mariadbd, installDb } = /** @type {import('./locations.js').MariadbPrograms} */ (findMariadb())
  /** @param {string} data */
  const always = (data) => ['--no-defaults', ...userArgs, `--datadir=${data}`, logSize]
  const rootAccess = ['--auth-root-authentication-method=normal', '--skip-test-db', '--skip-name-resolve']
  return startMysqlServer(
    {
      name: 'mariadb',
      command: [mariadbd],
      args: [logSize],
      recipe: {
        commands: (data) => [
          [installDb, ...always(data), ...rootAccess],
          [mariadbd, ...always(data), '--bootstrap'],
        ],
        setUp: `create database ${database};\n`,
      },
    },
    options,
  )
}

export const mariadb = controlledStore('mariadb', { programs: ['mariadbd'], start: () => startMariadb() })
