import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleLibrary } from '../lab/mutants/bundle.js'
import { HELP, type Options, readOptions } from './options.js'
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
  const definitions = chosen(options.only)
  if (definitions.length === 0) throw new Error(`There is no recipe with ${JSON.stringify(options.only)} in its name.`)
  const folder = mkdtempSync(fileURLToPath(new URL('build-', import.meta.url)))
  try {
    const results = await runAll(definitions, {
      ...options,
      program: await programOf(options, folder),
      onResult: (result) => console.log(tableLines([result], options.checks)[1]),
    })
    console.log(['', ...tableLines(results, options.checks)].join('\n'))
    return results.every(isGood) ? 0 : 1
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The built library, or a build of another source. */
async function programOf({ source }: Options, folder: string): Promise<string> {
  if (source === null) return new URL('library.js', import.meta.url).href
  return await bundleLibrary(source, null, join(folder), LIBRARY_ENTRY)
}
