// @ts-check
// Uses the built package on the Node version that runs this file: as ESM and as CommonJS, in memory and on SQLite.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const require = createRequire(import.meta.url)

/** @typedef {typeof import('holdfast').connect} Connect */

/**
 * @param {Connect} connect
 * @param {string} url
 */
async function lockOnce(connect, url) {
  const locks = await connect(url)
  try {
    const first = await locks.mutex('smoke').run(async (hold) => hold.fence)
    const second = await locks.mutex('smoke').run(async (hold) => hold.fence)
    assert.equal(typeof first, 'bigint', 'A fence is a bigint.')
    assert.ok(second > first, `Fences must grow, but ${second} came after ${first}.`)
  } finally {
    await locks.close()
  }
}

const folder = await mkdtemp(join(tmpdir(), 'holdfast-smoke-'))
try {
  const esm = await import('holdfast')
  /** @type {typeof import('holdfast')} */
  const cjs = require('holdfast')
  for (const [format, library] of /** @type {const} */ ([
    ['esm', esm],
    ['cjs', cjs],
  ])) {
    await lockOnce(library.connect, `memory:smoke-${format}`)
    await lockOnce(library.connect, `sqlite:${join(folder, `${format}.db`)}`)
    console.log(`Node ${process.version}, ${format}: memory and sqlite work.`)
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}
