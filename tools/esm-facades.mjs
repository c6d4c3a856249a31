// @ts-check
// Writes the ES modules of a package whose one implementation is CommonJS. Each of them only exports again what its
// CommonJS module exports, so that `import` and `require` give the same objects.

import { writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'

/**
 * @param {string} folder The folder with the built CommonJS modules, as an absolute path.
 * @param {readonly string[]} entries The names of the modules that users can load.
 */
export async function writeEsmFacades(folder, entries) {
  const require = createRequire(import.meta.url)
  await Promise.all(
    entries.map(async (entry) => {
      const names = Object.keys(require(join(folder, `${entry}.cjs`))).toSorted()
      const list = names.map((name) => `  ${name},\n`).join('')
      const values = names.length === 0 ? 'export {}' : `export {\n${list}} from './${entry}.cjs'`
      await writeFile(join(folder, `${entry}.js`), `${values}\n`)
      await writeFile(join(folder, `${entry}.d.ts`), `export * from './${entry}.cjs'\n`)
    }),
  )
}
