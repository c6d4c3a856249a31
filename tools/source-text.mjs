// @ts-check
// Lets other files be imported as text, the same way in the build and in tests:
// `import { source } from './x.lua'`, `… from './x.sql'`, `… from './style.css?text'`, and, for a page, `… from
// './main.ts?script'`, which is that module with all that it imports, as one script for a browser; `?minified` is the
// same, as small as can be, for a file of its own.

import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { rolldown } from 'rolldown'

/** These begin and end the ids of what has a query, so that no other plugin takes them for a module or a style sheet. */
const prefix = '\0source-text:'
const ends = { script: ':script', text: ':text', minified: ':minified' }

/** A plugin for Rolldown and Vite. */
export function sourceText() {
  return {
    name: 'source-text',
    enforce: /** @type {const} */ ('pre'),
    /**
     * @param {string} specifier
     * @param {string | undefined} importer
     */
    resolveId(specifier, importer) {
      const [path, query] = specifier.split('?')
      if (path === undefined || importer === undefined) return null
      if (query !== 'text' && query !== 'script' && query !== 'minified') return null
      return `${prefix}${resolve(dirname(importer), path)}${ends[query]}`
    },
    /** @param {string} id */
    async load(id) {
      if (id.endsWith('.lua') || id.endsWith('.sql')) return moduleOf(await readFile(id, 'utf8'))
      if (!id.startsWith(prefix)) return null
      const file = id.slice(prefix.length, id.lastIndexOf(':'))
      if (id.endsWith(ends.minified)) return moduleOf(await bundleOf(file, true))
      return moduleOf(id.endsWith(ends.script) ? await scriptOf(file) : await readFile(file, 'utf8'))
    },
  }
}

/** @param {string} source */
function moduleOf(source) {
  return {
    code: `export const source = ${JSON.stringify(source)}\n`,
    moduleType: /** @type {const} */ ('js'),
  }
}

/**
 * The script stands inside an HTML page, where these texts would end it or begin a comment.
 * @param {string} file
 */
async function scriptOf(file) {
  const source = await bundleOf(file, false)
  if (/<\/script|<script|<!--/i.test(source))
    throw new Error(`${file}: the script cannot stand inside a page.`)
  return source
}

/**
 * @param {string} file
 * @param {boolean} minify
 */
async function bundleOf(file, minify) {
  const build = await rolldown({
    input: file,
    platform: 'browser',
    transform: { target: 'es2022' },
    logLevel: 'silent',
  })
  const { output } = await build.generate({ format: 'iife', comments: false, minify })
  await build.close()
  return output[0].code
}
