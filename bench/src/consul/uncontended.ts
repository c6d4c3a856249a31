/** Locks that nobody else wants: what taking one and giving it back costs beside the bare requests. */

import { Agent, request } from 'node:http'
import { connect } from 'holdfast'
import { startConsul } from 'holdfast-servers'
import type { Bench, Findings } from '../group.js'
import { compare, measurePairs, type Pair } from '../pairs.js'

const SOCKETS = 48

export async function uncontended(bench: Bench, inFlight: number): Promise<Findings> {
  const server = await startConsul()
  try {
    const opened: readonly (readonly [string, Pair])[] = [
      ['bare', await openBare(server.port)],
      ['ours', await openOurs(server.url)],
      ['bare, once more', await openBare(server.port)],
    ]
    const plan = { inFlight, times: inFlight === 1 ? 50 : 256, rounds: bench.quick ? 21 : 61 }
    const [bare, ours, again] = await measurePairs(bench, opened, plan)
    return {
      title: `Consul: acquire + release, uncontended, ${inFlight} in flight`,
      rows: [compare('session', ours, bare, 0.8), compare('control: the same twice', again, bare, null)],
    }
  } finally {
    await server.dispose()
  }
}

async function openOurs(url: string): Promise<Pair> {
  const locks = await connect(url)
  return {
    once: (name) => locks.mutex(name).run(() => {}),
    close: () => locks.close(),
  }
}

/** As the manual has it, over the same kind of connections: a session, and a key that it acquires and releases. */
async function openBare(port: number): Promise<Pair> {
  const agent = new Agent({ keepAlive: true, maxSockets: SOCKETS })
  const put = (path: string, body = ''): Promise<string> =>
    new Promise((resolve, reject) => {
      const sent = request({ host: '127.0.0.1', port, method: 'PUT', path, agent }, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.once('end', () => resolve(Buffer.concat(chunks).toString()))
      })
      sent.once('error', reject)
      sent.end(body)
    })
  const { ID } = JSON.parse(await put('/v1/session/create', '{"TTL":"600s","NodeChecks":[]}')) as {
    ID: string
  }
  return {
    async once(name) {
      await put(`/v1/kv/bare/${name}?acquire=${ID}`, 'me')
      await put(`/v1/kv/bare/${name}?release=${ID}`, '')
    },
    async close() {
      await put(`/v1/session/destroy/${ID}`)
      agent.destroy()
    },
  }
}
