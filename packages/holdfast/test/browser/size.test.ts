import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { minifiedHelper } from './stage.js'

const BYTES_MAX = 3 * 1024

describe('the helper for browsers', () => {
  it('is one file that imports nothing, and smaller than 3 KB when compressed', async () => {
    const text = await minifiedHelper()
    const bytes = gzipSync(text, { level: 9 }).length
    console.log(`holdfast/browser: ${text.length} bytes minified, ${bytes} compressed.`)
    expect(bytes).toBeLessThan(BYTES_MAX)
    expect(text).not.toMatch(/\bimport\b|\brequire\b|node:|\bprocess\b/)
    expect(text).toMatch(/guardForm.*idempotentFetch|idempotentFetch.*guardForm/s)
  })
})
