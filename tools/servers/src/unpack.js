// @ts-check
// Gets a program without installing it, because the suite that the machine uses does not have it, or not beside another
// one that is needed. The package, and everything that it needs, is unpacked into the cache folder. No right is needed for
// that, and the machine stays as it is.
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { aptSettings, runCommand } from './command.js'
import { completeMarker, unpackedFolder } from './locations.js'
import { unpackings } from './unpackings.js'

/** @typedef {import('./unpackings.js').Unpacking} Unpacking */

const keyrings = ['gpg', 'pgp'].map((ending) => `/usr/share/keyrings/debian-archive-keyring.${ending}`)

/**
 * Unpacks a program into the cache folder. Whoever calls it sees to it that no other process does so at the same time.
 * @param {string} store The store that it is for.
 * @param {NodeJS.ProcessEnv} env
 * @param {string} [distribution] The identifier that the distribution gives itself.
 * @returns {Promise<string | undefined>} Why it could not be had.
 */
export async function unpackProgram(store, env, distribution = distributionHere()) {
  const unpacking = unpackings[store]
  if (unpacking === undefined) throw new Error(`Nothing is unpacked for the store '${store}'.`)
  const folder = unpackedFolder(store, env)
  try {
    await mkdir(dirname(folder), { recursive: true })
    await removePartial(folder)
    const work = await mkdtemp(`${folder}.partial-`)
    try {
      return await unpackInto(unpacking, work, folder, env, distribution)
    } finally {
      await rm(work, { recursive: true, force: true })
    }
  } catch (error) {
    // For example a cache folder that cannot be written to.
    return error instanceof Error ? error.message : String(error)
  }
}

/**
 * Removes what a process that was killed has left behind.
 * @param {string} folder
 */
async function removePartial(folder) {
  const names = await readdir(dirname(folder))
  const left = names
    .map((name) => join(dirname(folder), name))
    .filter((name) => name.startsWith(`${folder}.partial-`))
  if (!existsSync(join(folder, completeMarker))) left.push(folder)
  for (const each of left) await rm(each, { recursive: true, force: true })
}

/**
 * @param {Unpacking} unpacking
 * @param {string} work
 * @param {string} folder
 * @param {NodeJS.ProcessEnv} env
 * @param {string} distribution
 */
async function unpackInto(unpacking, work, folder, env, distribution) {
  /** @type {string | undefined} */
  let problem
  for (const source of await sourcesFor(unpacking.suite, distribution, env)) {
    const apt = await mkdtemp(join(work, 'apt-'))
    const root = join(apt, 'root')
    problem = await unpackFrom(unpacking, source, apt, root, env)
    if (problem !== undefined) continue
    for (const each of unpacking.unneeded) await rm(join(root, each), { recursive: true, force: true })
    const command = unpacking.commandIn(root)
    if (command === undefined) return `the package does not bring ${unpacking.what}`
    const version = await runCommand([...command, ...unpacking.versionArgs], env)
    if (version.problem !== undefined) return version.problem
    await writeFile(join(root, completeMarker), unpacking.versionOf(version.stdout))
    await rename(root, folder)
    return undefined
  }
  return problem ?? 'apt has no mirror of Debian among its sources'
}

function distributionHere() {
  const file = '/etc/os-release'
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  return /^ID="?([\w.-]+)/m.exec(text)?.[1] ?? ''
}

/**
 * Where packages come from: a line for sources.list, or undefined for the sources of the machine itself.
 * @typedef {string | undefined} Source
 */

/**
 * Debian has the program in one suite, on the same mirrors as everything else. Any other distribution has it, or has it
 * not, in the suite that the machine uses: programs of Debian would not come signed with a key that is known there.
 * @param {string} suite
 * @param {string} distribution
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<Source[]>} What to try, one after the other.
 */
async function sourcesFor(suite, distribution, env) {
  if (distribution !== 'debian') return [undefined]
  const { stdout } = await runCommand(['apt-get', 'update', '--print-uris'], env)
  const keyring = keyrings.find((file) => existsSync(file))
  const options = keyring === undefined ? '' : `[signed-by=${keyring}] `
  return mirrorsIn(stdout).map((mirror) => `deb ${options}${mirror} ${suite} main`)
}

/**
 * Apt itself tells where it gets its lists from, so it does not matter in which files and which form that is written.
 * A mirror of Debian has also the updates of a suite, and is tried before the other sources of packages.
 * @param {string} uris What `apt-get update --print-uris` says.
 */
export function mirrorsIn(uris) {
  const found = [...uris.matchAll(/^'(\S+?)\/dists\/([^/'\s]+)\/InRelease'/gm)]
  const releases = found.map(([, mirror = '', suite = '']) => ({ mirror, suite }))
  const hasUpdates = new Set(
    releases.filter(({ suite }) => suite.endsWith('-updates')).map(({ mirror }) => mirror),
  )
  const mirrors = [
    ...new Set(releases.filter(({ suite }) => !suite.includes('-')).map(({ mirror }) => mirror)),
  ]
  return mirrors.sort((a, b) => Number(hasUpdates.has(b)) - Number(hasUpdates.has(a)))
}

/**
 * @param {Unpacking} unpacking
 * @param {Source} source
 * @param {string} apt A folder for the lists and archives of apt, which then knows nothing of what is installed.
 * @param {string} root
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<string | undefined>} Why it could not be had.
 */
async function unpackFrom(unpacking, source, apt, root, env) {
  for (const name of ['none', 'lists/partial', 'archives/partial', 'root']) {
    await mkdir(join(apt, name), { recursive: true })
  }
  await writeFile(join(apt, 'status'), '')
  await writeFile(join(apt, 'sources.list'), `${source ?? ''}\n`)
  const settings = [...aptSettings, ...isolated(apt), ...(source === undefined ? [] : onlyListed(apt))]
  const options = settings.flatMap((setting) => ['-o', setting])
  const update = await runCommand(['apt-get', ...options, '-q', 'update'], env)
  const name = await newestPackage(unpacking.package, options, env)
  if (name === undefined) return update.problem ?? `no source of apt on this machine has ${unpacking.what}`
  const download = ['install', '-y', '--download-only', '--no-install-recommends', name]
  const { problem } = await runCommand(['apt-get', ...options, '-q', ...download], env)
  if (problem !== undefined) return update.problem ?? problem
  const archives = join(apt, 'archives')
  for (const archive of await readdir(archives)) {
    if (!archive.endsWith('.deb') || (unpacking.isAlone && !archive.startsWith(`${name}_`))) continue
    const extracting = await runCommand(['dpkg-deb', '--extract', join(archives, archive), root], env)
    if (extracting.problem !== undefined) return extracting.problem
    await rm(join(archives, archive))
  }
  return undefined
}

/** @param {string} apt */
function isolated(apt) {
  return [
    `Dir::State=${apt}`,
    `Dir::State::lists=${join(apt, 'lists')}`,
    `Dir::State::status=${join(apt, 'status')}`,
    `Dir::Cache=${apt}`,
    `Dir::Cache::archives=${join(apt, 'archives')}`,
    // The user that apt changes to for downloads has no access to the cache folder.
    'APT::Sandbox::User=root',
    // Some machines remove what was downloaded.
    'APT::Keep-Downloaded-Packages=true',
  ]
}

/** @param {string} apt */
function onlyListed(apt) {
  const none = join(apt, 'none')
  return [
    `Dir::Etc::SourceList=${join(apt, 'sources.list')}`,
    `Dir::Etc::SourceParts=${none}`,
    `Dir::Etc::Preferences=${join(none, 'preferences')}`,
    `Dir::Etc::PreferencesParts=${none}`,
  ]
}

/**
 * @param {string} plainPackage
 * @param {readonly string[]} options
 * @param {NodeJS.ProcessEnv} env
 */
async function newestPackage(plainPackage, options, env) {
  const { stdout } = await runCommand(
    ['apt-cache', ...options, 'search', '--names-only', `^${plainPackage}`],
    env,
  )
  const packageName = new RegExp(`^${plainPackage}(-[\\d.]+)?$`)
  const names = stdout
    .split('\n')
    .map((line) => line.split(' ', 1)[0] ?? '')
    .filter((name) => packageName.test(name))
  // The one without a version in its name is the newest.
  const [newest] = names.sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
  return names.find((name) => name === plainPackage) ?? newest
}
