import { expect, it } from 'vitest'
import { titled } from './titled.js'

it('leaves the title of what runs as it is', () => {
  expect(titled('names', null)).toBe('names')
  expect(titled('names', undefined)).toBe('names')
})

it('ends the title of what is skipped with the reason', () => {
  expect(titled('names', 'there is no server')).toBe('names (not run: there is no server)')
  expect(titled('names', 'does not apply to SQLite')).toBe('names (does not apply to SQLite)')
  expect(titled('names', 'skipped: it needs Linux')).toBe('names (skipped: it needs Linux)')
})
