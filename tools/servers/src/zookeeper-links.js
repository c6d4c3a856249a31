// @ts-check
// The links among the servers of a ZooKeeper ensemble, as proxies: one for each direction of each pair, so that any
// server can be parted from the others.
import { disposeAll } from './process.js'
import { startProxy } from './proxy.js'

/** @typedef {import('./proxy.js').TcpProxy} TcpProxy */
/** @typedef {import('./zookeeper-ensemble.js').PeerPorts} PeerPorts */
/** @typedef {{ readonly from: number, readonly to: number, readonly quorum: TcpProxy, election: TcpProxy }} Link */

/**
 * A server begins to talk about an election by naming its own address, and the other one may call back there. The
 * address is replaced by the one of the proxy that leads back, or the two would talk past the proxies.
 * @param {number} ownPort
 * @param {() => number} portBack
 * @returns {(chunk: Buffer, isFirst: boolean) => Buffer}
 */
function withAddressBack(ownPort, portBack) {
  return (chunk, isFirst) => {
    const own = `127.0.0.1:${ownPort}`
    const at = isFirst ? chunk.indexOf(own) : -1
    if (at < 0) return chunk
    const changed = Buffer.from(chunk)
    const back = `127.0.0.1:${portBack()}`
    // Every port here has five digits. With another length, the length that was sent before would be wrong.
    if (back.length !== own.length)
      throw new Error(`The address ${back} does not fit in the place of ${own}.`)
    changed.write(back, at, 'latin1')
    return changed
  }
}

/** @param {readonly PeerPorts[]} ports Of the servers themselves. */
export async function startLinks(ports) {
  /** @type {Link[]} */
  const links = []
  /**
   * @param {number} from
   * @param {number} to
   */
  const linkOf = (from, to) => {
    const link = links.find((each) => each.from === from && each.to === to)
    if (link === undefined) throw new Error(`There is no link from server ${from} to server ${to}.`)
    return link
  }
  for (const [from, own] of ports.entries()) {
    for (const [to, other] of ports.entries()) {
      if (from === to) continue
      const rewrite = withAddressBack(own.election, () => linkOf(to, from).election.port)
      const [quorum, election] = [
        await startProxy(other.quorum),
        await startProxy(other.election, { rewrite }),
      ]
      links.push({ from, to, quorum, election })
    }
  }
  /** @param {number} index */
  const proxiesOf = (index) =>
    links.flatMap(({ from, to, quorum, election }) =>
      from === index || to === index ? [quorum, election] : [],
    )
  return {
    /**
     * Where one server finds another.
     * @param {number} from
     * @param {number} to
     * @returns {PeerPorts}
     */
    portsOf: (from, to) => {
      const { quorum, election } = linkOf(from, to)
      return { quorum: quorum.port, election: election.port }
    },
    /**
     * @param {number} index
     * @param {boolean} silently
     */
    cut: (index, silently) => {
      for (const proxy of proxiesOf(index)) {
        if (silently) proxy.hold(true)
        else {
          proxy.refuse(true)
          proxy.cut()
        }
      }
    },
    /** @param {number} index */
    heal: (index) => {
      for (const proxy of proxiesOf(index)) {
        proxy.refuse(false)
        proxy.hold(false)
      }
    },
    dispose: () => disposeAll(links.flatMap(({ quorum, election }) => [quorum, election])),
  }
}
