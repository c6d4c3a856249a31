// @ts-check
// Lets a `.lua` file be imported as text, the same way in the build and in tests: `import { source } from './x.lua'`.

import { readFile } from 'node:fs/promises'

/** A plugin for Rolldown and Vite. */
export function luaText() {
  return {
    name: 'lua-text',
    /** @param {string} id */
    async load(id) {
      if (!id.endsWith('.lua')) return null
      const source = await readFile(id, 'utf8')
      return { code: `export const source = ${JSON.stringify(source)}\n`, moduleType: 'js' }
    },
  }
}
