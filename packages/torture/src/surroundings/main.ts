import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleLibrary } from '../lab/mutants/bundle.js'
import { visible } from '../report/visible.js'
import { type HuntedMutant, huntMutants } from './mutants/hunt.js'
import { SURROUNDING_MUTANTS } from './mutants/list.js'
import { HELP, type Options, readOptions } from './options.js'
import { reported } from './report.js'
import { chosen, isGood, runAll } from './run.js'
import { LIBRARY_ENTRY } from './subject.js'
import { tableLines } from './table.js'

try {
  process.exitCode = await main(readOptions(process.argv.slice(2)))
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}

async function main(options: Options): Promise<number> {
  if (options.help) {
    console.log(HELP)
    return 0
  }
  if (options.mutants) return await mutants(options)
  const definitions = chosen(options.only)
  if (definitions.length === 0)
    throw new Error(`There is no recipe with ${JSON.stringify(options.only)} in its name.`)
  const folder = mkdtempSync(fileURLToPath(new URL('build-', import.meta.url)))
  try {
    const results = await runAll(definitions, {
      ...options,
      program: await programOf(options, folder),
      onResult: (result) => console.log(tableLines([result], options.checks)[1]),
    })
    console.log(['', ...tableLines(results, options.checks)].join('\n'))
    if (options.json !== null) writeFileSync(options.json, `${JSON.stringify(reported(results), null, 2)}\n`)
    return results.every(isGood) ? 0 : 1
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The command without --mutants shows that the library itself passes. */
async function mutants(options: Options): Promise<number> {
  const wanted = SURROUNDING_MUTANTS.filter(({ name, store, check }) =>
    [name, store, check].some((text) => text.includes(options.only)),
  )
  if (wanted.length === 0)
    throw new Error(`There is no mutant with ${JSON.stringify(options.only)} in its name.`)
  const folder = mkdtempSync(fileURLToPath(new URL('mutants-', import.meta.url)))
  try {
    const hunted = await huntMutants(wanted, {
      ...options,
      packages: fileURLToPath(new URL('../../../', import.meta.url)),
      folder,
      onResult: (each) => console.log(mutantLine(each)),
    })
    const caught = hunted.filter(({ kind }) => kind === 'caught').length
    const missing = hunted.filter(({ kind }) => kind === 'not run').length
    console.log(
      `\n${caught} of ${hunted.length - missing} mutants were caught${missing > 0 ? `; ${missing} were not run` : ''}.`,
    )
    return hunted.every(({ kind, required }) => kind !== 'missed' && !required) ? 0 : 1
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function mutantLine({ mutant, kind, message }: HuntedMutant): string {
  const where = `${mutant.store} (${mutant.recipe}), ${mutant.check}`
  return visible(`${kind === 'missed' ? 'NOT CAUGHT' : kind}: ${mutant.name} [${where}] ${message}`)
}

/** The built library, or a build of another source. */
async function programOf({ source }: Options, folder: string): Promise<string> {
  if (source === null) return new URL('library.js', import.meta.url).href
  return await bundleLibrary(source, null, join(folder), LIBRARY_ENTRY)
}
