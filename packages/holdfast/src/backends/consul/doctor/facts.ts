/** What agents of Consul tell of themselves. */

import { UnsupportedError } from '../../../core/errors.js'
import type { ConsulAnswer, ConsulClient, ConsulQuestion } from '../client.js'
import { isObject, parseJson } from '../json.js'

export interface LeaderFacts {
  /** null: there is none. */
  readonly address: string | null
  readonly servers: number
}

export interface AgentFacts {
  readonly node: string
  readonly version: string
  readonly isServer: boolean
  /** null where the agent does not say. */
  readonly sessionTtlMinMs: number | null
  readonly connectionsMax: number | null
}

/** `off`: there are no ACLs. `unknown`: the agent does not say. */
export type Rights =
  | { readonly kind: 'off' | 'unknown' }
  | { readonly kind: 'on'; readonly missing: readonly string[] }

export async function leaderFacts(client: ConsulClient): Promise<LeaderFacts> {
  const leader = parsed(await client.ask({ method: 'GET', path: '/v1/status/leader' }))
  const peers = parsed(await client.ask({ method: 'GET', path: '/v1/status/peers' }))
  return {
    address: typeof leader === 'string' && leader !== '' ? leader : null,
    servers: Array.isArray(peers) ? peers.length : 0,
  }
}

/** null: the token may not read it. */
export async function agentFacts(client: ConsulClient): Promise<AgentFacts | null> {
  const self = parsed(await allowed(client, { method: 'GET', path: '/v1/agent/self' }))
  const config: unknown = isObject(self) ? self['Config'] : null
  if (!isObject(self) || !isObject(config)) return null
  const debug = isObject(self['DebugConfig']) ? self['DebugConfig'] : {}
  return {
    node: typeof config['NodeName'] === 'string' ? config['NodeName'] : '',
    version: typeof config['Version'] === 'string' ? config['Version'] : '',
    isServer: config['Server'] === true,
    sessionTtlMinMs: durationMs(debug['SessionTTLMin']),
    connectionsMax: Number.isInteger(debug['HTTPMaxConnsPerClient'])
      ? Number(debug['HTTPMaxConnsPerClient'])
      : null,
  }
}

export async function rightsOf(client: ConsulClient, base: string, node: string | null): Promise<Rights> {
  const wanted = [
    { Resource: 'key', Access: 'write', Segment: `${base}holdfast-doctor/.lock` },
    { Resource: 'key', Access: 'read', Segment: `${base}holdfast-doctor/.lock` },
    { Resource: 'session', Access: 'write', Segment: node ?? 'holdfast-doctor' },
  ]
  const body = JSON.stringify(wanted)
  const answer = await allowed(client, { method: 'POST', path: '/v1/internal/acl/authorize', body })
  if (answer?.status === 401) return { kind: 'off' }
  const told = answer?.status === 200 ? parsed(answer) : null
  if (!Array.isArray(told) || told.length !== wanted.length) return { kind: 'unknown' }
  const missing = wanted.filter((_, at) => !isObject(told[at]) || told[at]['Allow'] !== true)
  return { kind: 'on', missing: missing.map(({ Resource, Access }) => `${Resource}:${Access}`) }
}

/** The answer; null where the token may not ask, or the version of Consul does not know the question. */
async function allowed(client: ConsulClient, question: ConsulQuestion): Promise<ConsulAnswer | null> {
  try {
    const answer = await client.ask(question)
    return answer.status === 404 ? null : answer
  } catch (error) {
    if (error instanceof UnsupportedError) return null
    throw error
  }
}

function parsed(answer: ConsulAnswer | null): unknown {
  return answer?.status === 200 ? parseJson(answer.text) : null
}

const UNITS_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 }

/** A duration as the agent writes it, such as `1m30s`. */
function durationMs(value: unknown): number | null {
  if (typeof value !== 'string' || !/^(\d+(\.\d+)?(h|m|s|ms))+$/.test(value)) return null
  let ms = 0
  for (const [, number = '', unit = ''] of value.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)) {
    ms += Number(number) * (UNITS_MS[unit] ?? 0)
  }
  return ms
}
