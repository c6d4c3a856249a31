/** Builds of the library from its source, with a fault planted or without. */

import { readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Plugin, rolldown } from 'rolldown'
import { plantIn } from '../../sim/bundle.js'
import type { Mutant } from '../../sim/mutants/mutant.js'

/** What actors import: the locks, and the resource's side of fencing. */
const ENTRY = 'holdfast-of-a-trial'
const ENTRY_SOURCE = `export * from 'holdfast'\nexport * from 'holdfast/fencing'\n`

const DRIVERS = ['libsql', 'better-sqlite3', 'ioredis', 'redis', 'pg', 'mysql2', '@grpc/grpc-js']

/**
 * Builds into `folder`, which must be where the drivers are found from. Gives what is to be imported. Without a mutant it
 * is the library as it is, built in the same way. `entrySource` is the module that the build exports.
 */
export async function bundleLibrary(
  packages: string,
  mutant: Mutant | null,
  folder: string,
  entrySource = ENTRY_SOURCE,
): Promise<string> {
  const library = join(packages, 'holdfast', 'src')
  const plant: Plugin = {
    name: 'plant',
    resolveId(id) {
      if (id === ENTRY) return ENTRY
      if (id === 'holdfast') return join(library, 'index.ts')
      return id.startsWith('holdfast/') ? join(library, `${id.slice('holdfast/'.length)}.ts`) : null
    },
    load(id) {
      if (id === ENTRY) return { code: entrySource, moduleType: 'js' }
      const isText = /\.(?:lua|sql)$/.test(id)
      const isMeant = mutant !== null && relative(packages, id).split(sep).join('/') === mutant.file
      if (!isText && !isMeant) return null
      const source = readFileSync(id, 'utf8')
      const code = isMeant ? plantIn(source, mutant) : source
      if (!isText) return { code, moduleType: 'ts' }
      // As `tools/source-text.mjs` does it where the library itself is built.
      return { code: `export const source = ${JSON.stringify(code)}\n`, moduleType: 'js' }
    },
  }
  const build = await rolldown({
    input: ENTRY,
    platform: 'node',
    transform: { target: 'node20' },
    external: [/^node:/, ...DRIVERS],
    plugins: [plant],
    logLevel: 'silent',
  })
  await build.write({
    dir: folder,
    format: 'esm',
    entryFileNames: 'library.mjs',
    chunkFileNames: '[name]-[hash].mjs',
  })
  await build.close()
  return pathToFileURL(join(folder, 'library.mjs')).href
}
