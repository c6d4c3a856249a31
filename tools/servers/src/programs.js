// @ts-check
// Which programs there are, and how to say that one is missing.
import { spawnSync } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/**
 * @typedef {object} Program
 * @property {string} package The Debian package that it is in.
 * @property {readonly string[]} [services] The services that the package brings along. They are not needed, and are
 *   kept from being started.
 * @property {(env: NodeJS.ProcessEnv) => boolean} [isPresent] Unless given, the program is looked for on PATH.
 */

/** Every program that a store or a test of this repository can need. @type {Readonly<Record<string, Program>>} */
export const programs = {
  'redis-server': { package: 'redis-server', services: ['redis-server.service'] },
  'redis-sentinel': { package: 'redis-sentinel', services: ['redis-sentinel.service'] },
  'redis-cli': { package: 'redis-tools' },
  openssl: { package: 'openssl' },
  'python3-redis': {
    package: 'python3-redis',
    // A Debian package serves the Python of Debian, and not another one that comes first on PATH.
    isPresent: () => spawnSync('/usr/bin/python3', ['-c', 'import redis'], { stdio: 'ignore' }).status === 0,
  },
}

/** Programs that a store needs are not there. The store is then not run. */
export class ProgramMissingError extends Error {
  /**
   * @param {readonly string[]} missing
   * @param {string} reason
   */
  constructor(missing, reason) {
    super(`${reason}.`)
    this.name = 'ProgramMissingError'
    this.programs = missing
    this.reason = reason
  }
}

/** @param {string} name */
export function programNamed(name) {
  const program = programs[name]
  if (program === undefined) {
    throw new Error(
      `There is no program '${name}' here; the programs are ${Object.keys(programs).join(', ')}.`,
    )
  }
  return program
}

/**
 * Looks for a program on PATH.
 * @param {string} name
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {string | undefined} Where it is.
 */
export function whereIs(name, env = process.env) {
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
  return folders.map((folder) => join(folder, name)).find(isExecutable)
}

/** @param {string} path */
function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

/**
 * @param {readonly string[]} names
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {string[]} Those that are not there.
 */
export function missingPrograms(names, env = process.env) {
  return [...new Set(names)].filter((name) => {
    const { isPresent = () => whereIs(name, env) !== undefined } = programNamed(name)
    return !isPresent(env)
  })
}

/**
 * The command that installs programs by hand on Debian and its relatives.
 * @param {readonly string[]} names
 */
export function installCommand(names) {
  const packages = [...new Set(names.map((name) => programNamed(name).package))]
  return `apt-get install -y --no-install-recommends ${packages.join(' ')}`
}

/**
 * Says in words that programs are missing and how to get them.
 * @param {readonly string[]} names
 */
export function missingReason(names) {
  const [verb, them] = names.length === 1 ? ['is', 'it'] : ['are', 'them']
  return `${names.join(', ')} ${verb} not installed; get ${them} with \`sudo ${installCommand(names)}\``
}

/**
 * Throws a ProgramMissingError if a program is missing. It installs nothing: a test that starts a store should not
 * change the machine, nor wait for a download.
 * @param {readonly string[]} names
 * @param {NodeJS.ProcessEnv} [env]
 */
export function requirePrograms(names, env = process.env) {
  const missing = missingPrograms(names, env)
  if (missing.length > 0) throw new ProgramMissingError(missing, missingReason(missing))
}
