/**
 * Writes docs/guarantees.md anew from the results of the suite.
 *
 *     npm run torture -- --json results.json
 *     node packages/torture/dist/suite/write-page.js results.json
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import packageJson from '../../package.json' with { type: 'json' }
import { guaranteesPage } from './page.js'
import type { SuiteResult } from './runs.js'

const [file] = process.argv.slice(2)
if (file === undefined) throw new Error('Which file has the results? write-page.js RESULTS.json')
const entry = createRequire(import.meta.url).resolve('holdfast-torture')
const results = JSON.parse(readFileSync(file, 'utf8')) as SuiteResult[]
const page = guaranteesPage({ version: packageJson.version, results })
writeFileSync(join(entry, '..', '..', '..', '..', 'docs', 'guarantees.md'), page)
