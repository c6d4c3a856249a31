// @ts-check
// An archive of the classes that ZooKeeper loads (class-data sharing of the JVM). With it a server starts with about 40 %
// less processor time. `install` makes it once per machine; a server that finds none starts without.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder } from './cache.js'

/** @type {Map<string, string>} */
const known = new Map()

/**
 * Where the archive for these classes is, or would be. The JVM refuses one of another version or of other jars, so both
 * are part of its name.
 * @param {readonly string[]} jars
 */
export function archiveFile(jars) {
  const key = jars.join(':')
  let file = known.get(key)
  if (file === undefined) {
    const { stderr } = spawnSync('java', ['-version'], { encoding: 'utf8' })
    const facts = [stderr, jars.map((jar) => [jar, existsSync(jar) ? statSync(jar).mtimeMs : 0])]
    const digest = createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 16)
    file = join(cacheFolder(), `zookeeper-${digest}.jsa`)
    known.set(key, file)
  }
  return file
}

/**
 * The arguments of Java that use the archive, if it is there.
 * @param {readonly string[]} jars
 * @returns {readonly string[]}
 */
export function archiveArgs(jars) {
  const file = archiveFile(jars)
  return existsSync(file) ? [`-XX:SharedArchiveFile=${file}`, '-Xshare:auto'] : []
}

/**
 * Makes the archive, unless it is there.
 * @param {readonly string[]} jars
 * @param {(args: readonly string[]) => Promise<{ stop(options: { graceMs: number }): Promise<void>, dispose(): Promise<void> }>} start
 *   Starts a server with more arguments of Java.
 */
export async function makeArchive(jars, start) {
  const file = archiveFile(jars)
  if (existsSync(file)) return
  await mkdir(cacheFolder(), { recursive: true })
  const partial = `${file}.partial-${process.pid}`
  const server = await start([`-XX:ArchiveClassesAtExit=${partial}`, '-Xlog:disable'])
  try {
    // The JVM writes the archive when the server ends by itself.
    await server.stop({ graceMs: 60_000 })
    if (existsSync(partial)) await rename(partial, file)
  } finally {
    await server.dispose()
    await rm(partial, { force: true })
  }
}
