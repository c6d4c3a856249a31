import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { pages } from '../src/index.js'

const BYTES_MAX = 60 * 1024

describe('the files of the page', () => {
  it('are small', () => {
    const bytes = pages.reduce((sum, { body }) => sum + gzipSync(body).length, 0)
    console.log(`the whole page is ${bytes} bytes, compressed`)
    expect(bytes).toBeLessThan(BYTES_MAX)
  })

  it('name each other and nothing else, and hold no script or style inside', () => {
    const html = pages.find(({ path }) => path === '/')?.body.toString('utf8') ?? ''
    const named = [...html.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, path]) => `/${path}`)
    const assets = pages.filter(({ immutable }) => immutable).map(({ path }) => path)
    expect(new Set(named)).toEqual(new Set(assets))
    expect(html).not.toMatch(/<style|style=|<script(?![^>]* src=)|\son\w+=|\{\{/)
    for (const { body, type } of pages) {
      const foreign = body.toString('utf8').match(/https?:\/\/(?!www\.w3\.org\/2000\/svg)[^\s"'`]*/g)
      expect({ type, foreign }).toEqual({ type, foreign: null })
    }
  })

  it('have names and tags that change with their content', () => {
    const etags = pages.map(({ etag }) => etag)
    expect(new Set(etags).size).toBe(pages.length)
    for (const { path, etag, immutable } of pages) {
      expect(etag).toMatch(/^"[0-9a-f]{16}"$/)
      expect(path.includes(etag.slice(1, -1))).toBe(immutable)
    }
  })
})
