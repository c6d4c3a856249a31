// @ts-check
// Takes a mutex over the URL, says its fence, or that there is none, and stays until it is killed.
import { argv, stdout } from 'node:process'
import { connect } from 'holdfast'

const [url = '', name = '', ttlMs = ''] = argv.slice(2)
const locks = await connect(url, { ttlMs: Number(ttlMs) })
const hold = await locks.mutex(name).acquire()
stdout.write(locks.guarantees.fencing === 'none' ? 'none\n' : `${hold.fence}\n`)
setInterval(() => {}, 1_000)
