// @ts-check
// Redis servers tell clients where other servers are: sentinels name the master, nodes of a cluster name each other. A relay
// changes these addresses into those of relays, so that clients stay behind them. The servers themselves know the real ones:
// with `cluster-announce-port` and `replica-announce-port`, replication would go through the relays as well.
import { startProxy } from './proxy.js'

/** @typedef {import('./proxy-connection.js').RewriteReply} RewriteReply */

// An address as it stands in MOVED and ASK, in CLUSTER SLOTS and NODES, in what sentinels answer and in what they publish.
const address = /(127\.0\.0\.1(?::|\r\n:|\r\n\$5\r\n| )|\r\nport\r\n(?:\$5\r\n|:))(\d{5})(?!\d)/g
const contextLength = 64

/**
 * @param {ReadonlyMap<number, number>} ports What each port is to become. All have five digits, so that no length changes.
 * @returns {RewriteReply} For one connection.
 */
function addressRewriter(ports) {
  let sent = ''
  let kept = ''
  return (chunk) => {
    const text = sent + kept + chunk.toString('latin1')
    const changed = text.replace(address, (all, before, port) => {
      const other = ports.get(Number(port))
      return other === undefined ? all : `${before}${other}`
    })
    // A reply ends with a line feed. What follows the last one is part of a reply, and may be part of a port.
    const whole = Math.max(
      sent.length,
      changed.endsWith('\n') ? changed.length : changed.length - contextLength,
    )
    const ready = changed.slice(sent.length, whole)
    kept = text.slice(whole)
    sent = text.slice(Math.max(0, whole - contextLength), whole)
    return Buffer.from(ready, 'latin1')
  }
}

/**
 * Starts a relay for each of several Redis servers that tell clients of each other. What clients are told leads to the relays.
 * @param {ReadonlyArray<{ readonly port: number }>} servers
 * @returns {Promise<import('./proxy.js').TcpProxy[]>} In the order of the servers.
 */
export async function startAddressProxies(servers) {
  /** @type {Map<number, number>} */
  const ports = new Map()
  const relays = await Promise.all(
    servers.map(({ port }) => startProxy(port, { rewriteReplies: () => addressRewriter(ports) })),
  )
  for (const [index, { port }] of servers.entries()) {
    const relay = relays[index]
    if (relay === undefined || String(relay.port).length !== String(port).length) {
      throw new Error(`The port of a relay must have as many digits as ${port}.`)
    }
    ports.set(port, relay.port)
  }
  return relays
}
