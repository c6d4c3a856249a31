import { readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { type Plugin, rolldown } from 'rolldown'
import type { Mutant } from './mutants/index.js'

/**
 * Builds the simulator together with the library's source, with one fault planted, into `folder`. Gives the path of
 * the module to import.
 */
export async function bundleMutant(packages: string, mutant: Mutant, folder: string): Promise<string> {
  const library = join(packages, 'holdfast', 'src')
  const plant: Plugin = {
    name: 'plant',
    resolveId(id) {
      if (id === 'holdfast') return join(library, 'index.ts')
      return id.startsWith('holdfast/') ? join(library, `${id.slice('holdfast/'.length)}.ts`) : null
    },
    load(id) {
      // The simulation has a store of its own, so the scripts of real ones are never run.
      if (/\.(?:lua|sql)$/.test(id)) return { code: "export const source = ''", moduleType: 'js' }
      if (relative(packages, id).split(sep).join('/') !== mutant.file) return null
      return { code: plantIn(readFileSync(id, 'utf8'), mutant), moduleType: 'ts' }
    },
  }
  const build = await rolldown({
    input: join(packages, 'torture', 'src', 'sim', 'run.ts'),
    platform: 'node',
    transform: { target: 'node20' },
    external: [/^node:/, 'libsql', 'better-sqlite3'],
    plugins: [plant],
    logLevel: 'silent',
  })
  await build.write({
    dir: folder,
    format: 'esm',
    entryFileNames: 'run.mjs',
    chunkFileNames: '[name]-[hash].mjs',
  })
  await build.close()
  return join(folder, 'run.mjs')
}

export function plantIn(source: string, { name, file, find, replace }: Mutant): string {
  const parts = source.split(find)
  if (parts.length !== 2) {
    throw new Error(
      `The mutant "${name}" must find its text exactly once in ${file}; it is there ${parts.length - 1} times.`,
    )
  }
  return parts.join(replace)
}
