// @ts-check
// Where programs are. A database server is not always on PATH: Debian keeps the versions of PostgreSQL in folders of
// their own, its users do not have /usr/sbin on their PATH, and some programs
// are unpacked into the cache folder.
import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { cacheFolder } from './cache.js'

const superuserFolders = ['/usr/local/sbin', '/usr/sbin']
const debianPostgres = '/usr/lib/postgresql'

/** @param {string} path */
function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

/** @param {NodeJS.ProcessEnv} env */
function pathFolders(env) {
  return (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
}

/**
 * Looks for a program on PATH.
 * @param {string} name
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {string | undefined} Where it is.
 */
export function whereIs(name, env = process.env) {
  return programIn(name, pathFolders(env))
}

/**
 * @param {string} name
 * @param {readonly string[]} folders
 */
function programIn(name, folders) {
  return folders.map((folder) => join(folder, name)).find(isExecutable)
}

/** The versions of PostgreSQL that Debian has installed, the newest first. */
function debianPostgresFolders() {
  if (!existsSync(debianPostgres)) return []
  const versions = readdirSync(debianPostgres).filter((name) => Number(name) > 0)
  return versions.sort((a, b) => Number(b) - Number(a)).map((name) => join(debianPostgres, name, 'bin'))
}

/** @typedef {{ readonly postgres: string, readonly initdb: string }} PostgresPrograms */

/**
 * `HOLDFAST_POSTGRES_BIN` is the folder of a version to use instead of the newest.
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {PostgresPrograms | undefined}
 */
export function findPostgres(env = process.env) {
  const chosen = env.HOLDFAST_POSTGRES_BIN
  const folders = chosen ? [chosen] : [...pathFolders(env), ...debianPostgresFolders()]
  // Both must come from one folder, because each has its own format of data.
  for (const folder of folders) {
    const [postgres, initdb] = [join(folder, 'postgres'), join(folder, 'initdb')]
    if (isExecutable(postgres) && isExecutable(initdb)) return { postgres, initdb }
  }
  return undefined
}

/** @typedef {{ readonly mariadbd: string, readonly installDb: string }} MariadbPrograms */

/**
 * `HOLDFAST_MARIADB_BIN` is the folder of a version to use instead of the one of the machine.
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {MariadbPrograms | undefined}
 */
export function findMariadb(env = process.env) {
  const chosen = env.HOLDFAST_MARIADB_BIN
  const folders = chosen ? [chosen] : [...pathFolders(env), ...superuserFolders, '/usr/bin']
  const [mariadbd, installDb] = [programIn('mariadbd', folders), programIn('mariadb-install-db', folders)]
  return mariadbd === undefined || installDb === undefined ? undefined : { mariadbd, installDb }
}

/**
 * A program that is run by a loader has the loader and its arguments in front.
 * @typedef {object} FoundProgram
 * @property {readonly string[]} command
 * @property {string | undefined} [root] The folder that it was unpacked into.
 */

/**
 * `HOLDFAST_MYSQL_BIN` is the folder of a version to use instead of the one that `install` has unpacked.
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {FoundProgram | undefined}
 */
export function findMysql(env = process.env) {
  const chosen = env.HOLDFAST_MYSQL_BIN
  const fromCache = chosen ? undefined : unpacked('mysql', env)
  if (fromCache !== undefined) return fromCache
  const program = programIn('mysqld', chosen ? [chosen] : pathFolders(env))
  return program === undefined || !isUsableMysql(program) ? undefined : { command: [program] }
}

/**
 * `HOLDFAST_CONSUL_BIN` is the folder of a version to use instead of the one that `install` has unpacked.
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {FoundProgram | undefined}
 */
export function findConsul(env = process.env) {
  const chosen = env.HOLDFAST_CONSUL_BIN
  const fromCache = chosen ? undefined : unpacked('consul', env)
  if (fromCache !== undefined) return fromCache
  const program = programIn('consul', chosen ? [chosen] : pathFolders(env))
  return program === undefined ? undefined : { command: [program] }
}

/**
 * Where a program is unpacked.
 * @param {string} store The store that it is for.
 * @param {NodeJS.ProcessEnv} env
 */
export function unpackedFolder(store, env) {
  return join(cacheFolder(env), store)
}

/** This file is the last one that is written, so the folder that it is in is complete. */
export const completeMarker = 'holdfast-complete'

/** How to run what was unpacked into a folder. */
export const commandIn = {
  mysql: (/** @type {string} */ root) => loadedIn(root, join(root, 'usr', 'sbin', 'mysqld')),
  consul: (/** @type {string} */ root) => {
    const program = join(root, 'usr', 'bin', 'consul')
    return isExecutable(program) ? [program] : undefined
  },
}

/**
 * @param {keyof typeof commandIn} store
 * @param {NodeJS.ProcessEnv} env
 * @returns {FoundProgram | undefined}
 */
function unpacked(store, env) {
  const root = unpackedFolder(store, env)
  const command = existsSync(join(root, completeMarker)) ? commandIn[store](root) : undefined
  return command && { command, root }
}

/**
 * The libraries of an unpacked program are newer than those of the machine, and the loader has to fit the libraries.
 * @param {string} root
 * @param {string} program
 * @returns {string[] | undefined}
 */
function loadedIn(root, program) {
  const libraries = join(root, 'usr', 'lib')
  if (!existsSync(libraries) || !isExecutable(program)) return undefined
  for (const triplet of readdirSync(libraries).filter((name) => name.endsWith('-linux-gnu'))) {
    const folder = join(libraries, triplet)
    const loader = readdirSync(folder).find((name) => /^ld-linux.*\.so\.\d+$/.test(name))
    if (loader === undefined) continue
    // Packages keep libraries that nobody else should use in the folder `private`.
    return [join(folder, loader), '--library-path', `${folder}:${join(folder, 'private')}`, program]
  }
  return undefined
}

/**
 * MariaDB brings along a program of this name. And a profile of AppArmor, which comes with the package of Ubuntu, keeps
 * MySQL from every folder but its own.
 * @param {string} program
 */
function isUsableMysql(program) {
  const profile = `/etc/apparmor.d/${program.slice(1).replaceAll('/', '.')}`
  const enabled = '/sys/module/apparmor/parameters/enabled'
  if (existsSync(profile) && existsSync(enabled) && readFileSync(enabled, 'utf8').startsWith('Y'))
    return false
  const { stdout, status } = spawnSync(program, ['--no-defaults', '--version'], { encoding: 'utf8' })
  return status === 0 && !/mariadb/i.test(stdout)
}

// Chrome is as good as Chromium. The last name is a stub in Ubuntu, so the others come first.
const browsers = ['chromium', 'google-chrome', 'google-chrome-stable', 'chromium-browser']
const snapBrowser = '/snap/bin/chromium'

/**
 * `HOLDFAST_CHROMIUM` is the file of a browser to use instead of the one on PATH.
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {string | undefined}
 */
export function findChromium(env = process.env) {
  const chosen = env.HOLDFAST_CHROMIUM
  if (chosen) return isExecutable(chosen) ? chosen : undefined
  return browsers.flatMap((name) => whereIs(name, env) ?? []).find((path) => !isStub(path))
}

/**
 * Ubuntu's package brings a script that starts the browser of a snap, or says that there is none.
 * @param {string} path
 */
function isStub(path) {
  if (existsSync(snapBrowser) || statSync(path).size > stubBytesMax) return false
  return readFileSync(path, 'latin1').includes('/snap/bin/')
}

const stubBytesMax = 65_536

/** Where Debian keeps the libraries of Java. */
export const javaFolder = '/usr/share/java'

/** @param {string} name */
export function hasJar(name) {
  return existsSync(join(javaFolder, name))
}
