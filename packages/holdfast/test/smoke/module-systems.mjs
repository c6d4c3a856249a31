// @ts-check
// Loads every entry of the built package by import and by require in one process, and checks that both give the same
// objects. Two copies would grant one in-memory lock twice, and their errors would not be instances of each other.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const manifest = JSON.parse(readFileSync(require.resolve('holdfast/package.json'), 'utf8'))
const entries = Object.keys(manifest.exports)
  .filter((subpath) => subpath !== './package.json')
  .map((subpath) => `holdfast${subpath.slice(1)}`)

/** @type {string[]} */
const different = []
for (const entry of entries) {
  const imported = await import(entry)
  const required = require(entry)
  const names = new Set([...Object.keys(imported), ...Object.keys(required)])
  for (const name of names) if (imported[name] !== required[name]) different.push(`${entry} ${name}`)
}
assert.deepEqual(different, [], 'import and require give different objects')

const imported = await import('holdfast')
/** @type {typeof import('holdfast')} */
const required = require('holdfast')
const first = await imported.connect('memory:shared')
const second = await required.connect('memory:shared')
try {
  const hold = await first.mutex('job').acquire()
  assert.equal(await second.mutex('job').tryAcquire(), null, 'memory:NAME is two stores')
  await assert.rejects(second.mutex('job').acquire({ waitMs: 0 }), imported.AcquireTimeoutError)
  await assert.rejects(first.all([second.mutex('job')]).acquire({ waitMs: 0 }), required.HoldfastError)
  await hold.release()
} finally {
  await first.close()
  await second.close()
}
console.log(
  `Node ${process.version}: import and require give the same objects for ${entries.length} entries.`,
)
