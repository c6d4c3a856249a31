import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { stores } from 'holdfast-servers'
import { describe, expect, test } from 'vitest'
import { CASES } from '../../src/lab/cases/index.js'
import { labPage } from '../../src/lab/page.js'

const ROOT = join(import.meta.dirname, '../../../..')

describe('the cases of the lab', () => {
  test('have names of their own that can be typed', () => {
    const names = CASES.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
    for (const name of names) expect(name).toMatch(/^[a-z][a-z0-9-]+$/)
  })

  test('name stores that exist, and tell their story in sentences', () => {
    for (const { name, stores: needed, title, story, fault, ours } of CASES) {
      for (const store of needed) expect(stores.has(store), `${name} needs ${store}`).toBe(true)
      expect(title, name).not.toMatch(/[.\n]$/)
      for (const text of [story, fault, ours]) expect(text, name).toMatch(/^[\p{Lu}\d`][^\n]{40,}[.`]$/u)
    }
  })

  test('never admit what they expect', () => {
    for (const { name, expects, admits = {} } of CASES)
      expect(Object.keys(admits), name).not.toContain(expects)
  })

  test('are the ones on the page', () => {
    const page = readFileSync(join(ROOT, 'docs/lab.md'), 'utf8')
    expect(page, 'run: node packages/torture/dist/lab/write-page.js').toBe(labPage(CASES))
  })
})

describe('the library', () => {
  test('has no word of the lab, nor of the package it is in', () => {
    const found = sourcesBelow(join(ROOT, 'packages/holdfast/src')).filter((file) =>
      /holdfast-torture|torture\/|\/lab\//.test(readFileSync(file, 'utf8')),
    )
    expect(found).toEqual([])
    const manifest = readFileSync(join(ROOT, 'packages/holdfast/package.json'), 'utf8')
    expect(manifest).not.toContain('torture')
  })
})

function sourcesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((path) => join(folder, path))
    .filter((path) => statSync(path).isFile())
}
