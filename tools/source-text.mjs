// @ts-check
// Lets `.lua` and `.sql` files be imported as text, the same way in the build and in tests:
// `import { source } from './x.lua'`.

import { readFile } from 'node:fs/promises'

/** A plugin for Rolldown and Vite. */
export function sourceText() {
  return {
    name: 'source-text',
    /** @param {string} id */
    async load(id) {
      if (!id.endsWith('.lua') && !id.endsWith('.sql')) return null
      const source = await readFile(id, 'utf8')
      return { code: `export const source = ${JSON.stringify(source)}\n`, moduleType: 'js' }
    },
  }
}
