// @ts-check
// Takes a mutex, says its fence, and stays until it is killed.
import { argv, stdout } from 'node:process'
import { createLocks } from 'holdfast'
import { sqliteBackend } from 'holdfast/sqlite'

const [path = '', name = '', ttlMs = ''] = argv.slice(2)
const locks = await createLocks(sqliteBackend({ path }), { ttlMs: Number(ttlMs) })
const hold = await locks.mutex(name).acquire()
stdout.write(`${hold.fence}\n`)
setInterval(() => {}, 1_000)
