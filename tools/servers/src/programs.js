// @ts-check
// Which programs there are, and how to say that one is missing.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import {
  findChromium,
  findConsul,
  findMariadb,
  findMysql,
  findPostgres,
  hasJar,
  whereIs,
} from './locations.js'

/**
 * @typedef {object} Program
 * @property {string} package The Debian package that it is in.
 * @property {readonly string[]} [services] The services that the package brings along. They are not needed, and are
 *   kept from being started.
 * @property {(env: NodeJS.ProcessEnv) => boolean} [isPresent] Unless given, the program is looked for on PATH.
 * @property {string} [unpackedFor] The store that it is for, if it is not installed but unpacked into the cache folder,
 *   because most machines cannot install its package, or not beside another one that is needed.
 */

/** Every program that a store or a test of this repository can need. @type {Readonly<Record<string, Program>>} */
export const programs = {
  'redis-server': { package: 'redis-server', services: ['redis-server.service'] },
  'redis-sentinel': { package: 'redis-sentinel', services: ['redis-sentinel.service'] },
  'redis-cli': { package: 'redis-tools' },
  postgres: {
    package: 'postgresql',
    services: ['postgresql.service'],
    isPresent: (env) => findPostgres(env) !== undefined,
  },
  mariadbd: {
    package: 'mariadb-server',
    services: ['mariadb.service'],
    isPresent: (env) => findMariadb(env) !== undefined,
  },
  mysqld: {
    package: 'mysql-server-core',
    isPresent: (env) => findMysql(env) !== undefined,
    unpackedFor: 'mysql',
  },
  consul: {
    package: 'consul',
    isPresent: (env) => findConsul(env) !== undefined,
    unpackedFor: 'consul',
  },
  pgbouncer: {
    package: 'pgbouncer',
    services: ['pgbouncer.service'],
    isPresent: (env) => findPgbouncer(env) !== undefined,
  },
  memcached: { package: 'memcached', services: ['memcached.service'] },
  etcd: { package: 'etcd-server', services: ['etcd.service'] },
  etcdctl: { package: 'etcd-client' },
  openssl: { package: 'openssl' },
  gcc: { package: 'gcc' },
  'libc.h': { package: 'libc6-dev', isPresent: () => existsSync('/usr/include/time.h') },
  chromium: { package: 'chromium', isPresent: (env) => findChromium(env) !== undefined },
  java: { package: 'default-jre-headless' },
  javac: { package: 'default-jdk-headless' },
  'zookeeper.jar': { package: 'libzookeeper-java', isPresent: () => hasJar('zookeeper.jar') },
  // The server uses it, but its package does not ask for it.
  'commons-lang3.jar': { package: 'libcommons-lang3-java', isPresent: () => hasJar('commons-lang3.jar') },
  // It brings the framework and the client of Curator along.
  curator: { package: 'libcurator-recipes-java', isPresent: () => hasJar('curator-recipes.jar') },
  'python3-redis': {
    package: 'python3-redis',
    // A Debian package serves the Python of Debian, and not another one that comes first on PATH.
    isPresent: () => spawnSync('/usr/bin/python3', ['-c', 'import redis'], { stdio: 'ignore' }).status === 0,
  },
}

/**
 * Debian keeps it in a folder that its users do not have on their PATH.
 * @param {NodeJS.ProcessEnv} [env]
 */
export function findPgbouncer(env = process.env) {
  return whereIs('pgbouncer', { ...env, PATH: `${env.PATH ?? ''}:/usr/sbin` })
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
 * The commands that get programs by hand on Debian and its relatives.
 * @param {readonly string[]} names
 */
function installCommands(names) {
  const wanted = [...new Set(names)].map(programNamed)
  const packages = wanted.filter(({ unpackedFor }) => unpackedFor === undefined).map((each) => each.package)
  const unpacked = wanted.flatMap(({ unpackedFor }) => unpackedFor ?? [])
  const apt = `sudo apt-get install -y --no-install-recommends ${[...new Set(packages)].join(' ')}`
  const here = `npm run servers -- install ${unpacked.join(' ')}`
  return [...(packages.length > 0 ? [apt] : []), ...(unpacked.length > 0 ? [here] : [])]
}

/**
 * Says in words that programs are missing and how to get them.
 * @param {readonly string[]} names
 */
export function missingReason(names) {
  const [verb, them] = names.length === 1 ? ['is', 'it'] : ['are', 'them']
  const commands = installCommands(names).map((command) => `\`${command}\``)
  return `${names.join(', ')} ${verb} not installed; get ${them} with ${commands.join(' and ')}`
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
