// @ts-check
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

// Linux takes the ports of outgoing connections from 32768 upwards. A server that is started again on its port must
// find it free, so a port is taken from below.
const lowest = 10_000
const ephemeral = 32_768
const triesMax = 200

/** Ports that this process has given out: two servers that start at once must not both find the same one free. */
const taken = new Set()

/** @param {number} port */
function isFree(port) {
  return new Promise((/** @type {(free: boolean) => void} */ resolve) => {
    const probe = createServer()
    probe.unref()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)))
  })
}

/**
 * Gives a port of the loopback address that nobody uses, and keeps it for the caller until `returnPort`.
 * Another process can still take it first: whoever starts a server on it must be ready to try another one.
 * @param {object} [options]
 * @param {number} [options.companion] The port this much higher must be free too. Redis Cluster talks among its nodes
 *   on the port 10000 above.
 * @returns {Promise<number>}
 */
export async function takePort({ companion = 0 } = {}) {
  for (let tries = 0; tries < triesMax; tries += 1) {
    const port = randomInt(lowest, ephemeral - companion)
    const wanted = companion === 0 ? [port] : [port, port + companion]
    if (wanted.some((each) => taken.has(each))) continue
    for (const each of wanted) taken.add(each)
    const free = await Promise.all(wanted.map(isFree))
    if (free.every(Boolean)) return port
    returnPort(port, { companion })
  }
  throw new Error(`No free port was found between ${lowest} and ${ephemeral} in ${triesMax} tries.`)
}

/**
 * @param {number} port
 * @param {object} [options]
 * @param {number} [options.companion]
 */
export function returnPort(port, { companion = 0 } = {}) {
  taken.delete(port)
  taken.delete(port + companion)
}
