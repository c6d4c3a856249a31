import { setMaxListeners } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { stageDefinitions } from '../stage/definitions.js'
import { HELP, readOptions, type SuiteOptions } from './options.js'
import { chosen, isGood, runAll, type SuiteResult } from './runs.js'
import { tableLines } from './table.js'

const stopping = new AbortController()
setMaxListeners(0, stopping.signal)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => stopping.abort(new Error(`Interrupted by ${signal}.`)))
}

try {
  process.exitCode = await main(readOptions(process.argv.slice(2)))
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}

async function main(options: SuiteOptions): Promise<number> {
  if (options.help) {
    console.log(HELP)
    return 0
  }
  const definitions = chosen(stageDefinitions, options.only)
  const results = await runAll(definitions, options, stopping.signal, (result) => console.log(lineOf(result)))
  console.log(['', ...tableLines(results)].join('\n'))
  if (options.json !== null) await writeFile(options.json, `${JSON.stringify(results, null, 2)}\n`)
  return results.length > 0 && results.every(isGood) ? 0 : 1
}

function lineOf(result: SuiteResult): string {
  const [, line] = tableLines([result])
  return line ?? ''
}
