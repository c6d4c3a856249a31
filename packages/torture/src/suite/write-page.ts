/**
 * Writes docs/guarantees.md anew from the results of the suite.
 *
 *     npm run torture -- --json torture.json
 *     npm run surroundings -- --json surroundings.json
 *     node packages/torture/dist/suite/write-page.js torture.json surroundings.json
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import packageJson from '../../package.json' with { type: 'json' }
import type { ReportedRecipe } from '../surroundings/report.js'
import { guaranteesPage } from './page.js'
import type { SuiteResult } from './runs.js'

const [torture, surroundings] = process.argv.slice(2)
if (torture === undefined || surroundings === undefined) {
  throw new Error('Which files have the results? write-page.js TORTURE.json SURROUNDINGS.json')
}
const entry = createRequire(import.meta.url).resolve('holdfast-torture')
const page = guaranteesPage({
  version: packageJson.version,
  results: JSON.parse(readFileSync(torture, 'utf8')) as SuiteResult[],
  surroundings: JSON.parse(readFileSync(surroundings, 'utf8')) as ReportedRecipe[],
})
writeFileSync(join(entry, '..', '..', '..', '..', 'docs', 'guarantees.md'), page)
