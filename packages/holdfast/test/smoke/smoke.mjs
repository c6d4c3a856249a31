// @ts-check
// Uses the built package on the Node version that runs this file: as ESM and as CommonJS, in memory, on SQLite and on
// Redis with both of its drivers.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { storeFor } from 'holdfast-servers'

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

const redis = await storeFor('redis')
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
    if (redis.kind === 'not run') {
      console.log(`Node ${process.version}, ${format}: redis was not run: ${redis.reason}.`)
      continue
    }
    await lockOnce(library.connect, `${redis.store.url}?driver=ioredis`)
    await lockOnce(library.connect, `${redis.store.url}?driver=redis`)
    console.log(`Node ${process.version}, ${format}: redis works with both drivers.`)
  }
} finally {
  await rm(folder, { recursive: true, force: true })
  if (redis.kind === 'ready') await redis.store.dispose()
}
