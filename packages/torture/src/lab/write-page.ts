/**
 * Writes docs/lab.md anew from the cases.
 *
 *     node packages/torture/dist/lab/write-page.js
 */

import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { CASES } from './cases/index.js'
import { labPage } from './page.js'

const entry = createRequire(import.meta.url).resolve('holdfast-torture')
writeFileSync(join(entry, '..', '..', '..', '..', 'docs', 'lab.md'), labPage(CASES))
