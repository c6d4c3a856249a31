// @ts-check
// Installs the programs that stores need, where that is possible without asking anybody.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { aptSettings, installMs, runCommand } from './command.js'
import { whereIs } from './locations.js'
import { missingPrograms, missingReason, programNamed } from './programs.js'
import { unpackProgram } from './unpack.js'

/**
 * @typedef {object} ProgramState
 * @property {string} name
 * @property {'present' | 'installed' | 'missing'} kind
 * @property {string} [reason] Why it is missing, and how to get it.
 */

/**
 * Makes sure that programs are there; installs what is missing if this process may. Never rejects because one cannot
 * be had: it says so.
 * @param {readonly string[]} names The names of `src/programs.js`.
 * @param {object} [options]
 * @param {NodeJS.ProcessEnv} [options.env] `HOLDFAST_INSTALL=no` forbids to install anything.
 * @param {(line: string) => void} [options.log] Is told what is done.
 * @returns {Promise<ProgramState[]>} In the order of the names.
 */
export async function ensurePrograms(names, { env = process.env, log = () => undefined } = {}) {
  const missing = missingPrograms(names, env)
  const isUnpacked = (/** @type {string} */ name) => programNamed(name).unpackedFor !== undefined
  const problemOfInstall = await install(
    missing.filter((name) => !isUnpacked(name)),
    env,
    log,
  )
  /** @type {Map<string, string | undefined>} */
  const problemsOfUnpack = new Map()
  for (const name of missing.filter(isUnpacked)) problemsOfUnpack.set(name, await unpack(name, env, log))
  const still = missingPrograms(missing, env)
  return [...new Set(names)].map((name) => {
    if (!missing.includes(name)) return { name, kind: 'present' }
    if (!still.includes(name)) return { name, kind: 'installed' }
    const problem = isUnpacked(name) ? problemsOfUnpack.get(name) : problemOfInstall
    const because = problem === undefined ? 'the package does not bring it' : problem
    const note = 'Tests start their own server and do not use the one of compose.yaml'
    return {
      name,
      kind: 'missing',
      reason: `${missingReason([name])}. ${note}. Not installed here: ${because}`,
    }
  })
}

/**
 * @param {readonly string[]} missing
 * @param {NodeJS.ProcessEnv} env
 * @param {(line: string) => void} log
 * @returns {Promise<string | undefined>} Why nothing was installed.
 */
async function install(missing, env, log) {
  if (missing.length === 0) return undefined
  const rights = rightsToInstall(env)
  if (typeof rights === 'string') return rights
  return withLock(missing, env, async (wanted) => {
    const packages = [...new Set(wanted.map((name) => programNamed(name).package))]
    log(`installing ${packages.join(', ')}`)
    return withServicesOff(wanted, rights.prefix, env, async () => {
      const update = await aptGet(rights.prefix, ['update'], env)
      const result = await aptGet(
        rights.prefix,
        ['install', '-y', '--no-install-recommends', ...packages],
        env,
      )
      // A list that could not be brought up to date may still do.
      return result === undefined ? undefined : (update ?? result)
    })
  })
}

/**
 * @param {string} name
 * @param {NodeJS.ProcessEnv} env
 * @param {(line: string) => void} log
 * @returns {Promise<string | undefined>} Why it was not unpacked.
 */
async function unpack(name, env, log) {
  const obstacle = obstacleToAll(env)
  if (obstacle !== undefined) return obstacle
  const { package: packageName, unpackedFor = '' } = programNamed(name)
  return withLock([name], env, async () => {
    log(`unpacking ${packageName} into the cache folder`)
    return unpackProgram(unpackedFor, env)
  })
}

/**
 * Runs a task while no other process of this user installs anything.
 * @param {readonly string[]} missing
 * @param {NodeJS.ProcessEnv} env
 * @param {(wanted: readonly string[]) => Promise<string | undefined>} task Gets what is still missing.
 * @returns {Promise<string | undefined>} Why it was not done.
 */
async function withLock(missing, env, task) {
  const unlock = await lock(env)
  if (unlock === undefined) return 'another installation did not end in time'
  try {
    // Somebody else may have installed it while this process waited.
    const wanted = missingPrograms(missing, env)
    return wanted.length === 0 ? undefined : await task(wanted)
  } finally {
    unlock()
  }
}

/** @param {NodeJS.ProcessEnv} env */
function obstacleToAll(env) {
  if (env.HOLDFAST_INSTALL === 'no') return 'HOLDFAST_INSTALL is no'
  const there = ['apt-get', 'flock'].every((name) => whereIs(name, env) !== undefined)
  if (process.platform === 'linux' && there) return undefined
  return 'only a Linux with apt-get and flock can be served'
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @returns {{ readonly prefix: readonly string[] } | string} What to put before a command to run it as the superuser,
 *   or why nothing may be installed.
 */
function rightsToInstall(env) {
  const obstacle = obstacleToAll(env)
  if (obstacle !== undefined) return obstacle
  if (process.getuid?.() === 0) return { prefix: [] }
  if (whereIs('sudo', env) === undefined) return 'this user is not root, and there is no sudo'
  const asked = spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore', env })
  return asked.status === 0 ? { prefix: ['sudo', '-n'] } : 'this user is not root, and sudo wants a password'
}

/**
 * Keeps other processes of this user from installing at the same time. The lock is one of the kernel on a file, held
 * by a child until its input closes, so it ends with this process however that ends.
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<(() => void) | undefined>} Gives the lock back; undefined if it could not be had in time.
 */
function lock(env) {
  const file = join(tmpdir(), `holdfast-servers-install-${process.getuid?.() ?? 0}.lock`)
  const seconds = String(installMs / 1_000)
  const holder = spawn('flock', ['-w', seconds, file, 'sh', '-c', 'echo locked; exec cat'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env,
  })
  return new Promise((resolve, reject) => {
    holder.once('error', reject)
    holder.once('exit', () => resolve(undefined))
    holder.stdout.once('data', () => resolve(() => void holder.stdin.end()))
  })
}

/**
 * Runs a task while the services of the packages cannot be started: a Redis server on its usual port is nothing that
 * these tests asked for. Where systemd runs, the units are masked until the next start of the machine at most;
 * elsewhere, and in containers, the usual policy keeps them from starting.
 * @template T
 * @param {readonly string[]} names
 * @param {readonly string[]} prefix
 * @param {NodeJS.ProcessEnv} env
 * @param {() => Promise<T>} task
 * @returns {Promise<T>}
 */
async function withServicesOff(names, prefix, env, task) {
  const services = existsSync('/run/systemd/system')
    ? names.flatMap((name) => programNamed(name).services ?? [])
    : []
  if (services.length === 0) return task()
  await runCommand([...prefix, 'systemctl', 'mask', '--runtime', ...services], env)
  try {
    return await task()
  } finally {
    await runCommand([...prefix, 'systemctl', 'unmask', '--runtime', ...services], env)
  }
}

/**
 * @param {readonly string[]} prefix
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} env
 */
async function aptGet(prefix, args, env) {
  const options = aptSettings.flatMap((setting) => ['-o', setting])
  // The variables are set behind sudo, which would not let them through.
  const variables = ['env', 'DEBIAN_FRONTEND=noninteractive', 'RUNLEVEL=1']
  return (await runCommand([...prefix, ...variables, 'apt-get', ...options, ...args], env)).problem
}
