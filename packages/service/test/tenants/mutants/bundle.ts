/** Builds of the service together with the library, from source, with a fault planted or without. */

import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Plugin, rolldown } from 'rolldown'
import type { createService as CreateService } from '../../../src/service.js'
import type { ServiceMutant } from './list.js'

const packages = join(import.meta.dirname, '..', '..', '..', '..')
const library = join(packages, 'holdfast', 'src')

export interface Built {
  readonly createService: typeof CreateService
  /** What another process imports. */
  readonly module: string
  readonly remove: () => Promise<void>
}

/** The text must be there exactly once: a fault that is planted nowhere would be found by nothing. */
export function plantIn(source: string, { name, file, find, replace }: ServiceMutant): string {
  const parts = source.split(find)
  if (parts.length !== 2)
    throw new Error(
      `The mutant "${name}" must find its text once in ${file}; it is there ${parts.length - 1} times.`,
    )
  return parts.join(replace)
}

function plant(mutant: ServiceMutant | null): Plugin {
  return {
    name: 'plant',
    resolveId(id) {
      if (id === 'holdfast') return join(library, 'index.ts')
      if (id === 'holdfast-dashboard') return id
      return id.startsWith('holdfast/') ? join(library, `${id.slice('holdfast/'.length)}.ts`) : null
    },
    async load(id) {
      // The dashboard is a page, which no tenant of these runs asks for.
      if (id === 'holdfast-dashboard') return { code: DASHBOARD, moduleType: 'js' }
      // Scripts of stores that are not used.
      if (/\.(?:lua|sql)$/.test(id)) return { code: "export const source = ''", moduleType: 'js' }
      if (mutant === null || relative(packages, id).split(sep).join('/') !== mutant.file) return null
      return { code: plantIn(await readFile(id, 'utf8'), mutant), moduleType: 'ts' }
    },
  }
}

const DASHBOARD = 'export const pages = []'
const EXTERNAL = [
  /^node:/,
  /^@?fastify/,
  /^typebox/,
  /^(libsql|better-sqlite3|ioredis|redis|pg|mysql2)$/,
  /^@grpc\//,
]

/** Builds into the package, because its dependencies are found from there. */
export async function buildService(mutant: ServiceMutant | null): Promise<Built> {
  const dist = join(packages, 'service', 'dist')
  await mkdir(dist, { recursive: true })
  const folder = await mkdtemp(join(dist, 'mutant-'))
  const build = await rolldown({
    input: join(packages, 'service', 'src', 'service.ts'),
    platform: 'node',
    transform: { target: 'node20' },
    external: EXTERNAL,
    plugins: [plant(mutant)],
    logLevel: 'silent',
  })
  await build.write({
    dir: folder,
    format: 'esm',
    entryFileNames: 'service.mjs',
    chunkFileNames: '[name]-[hash].mjs',
  })
  await build.close()
  const module = pathToFileURL(join(folder, 'service.mjs')).href
  const made = (await import(module)) as Pick<Built, 'createService'>
  return {
    createService: made.createService,
    module,
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
