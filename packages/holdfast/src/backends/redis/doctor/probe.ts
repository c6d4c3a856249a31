/** Asks one server, and knows the difference between a refusal, which is a finding, and a silence, which ends it all. */

import { withDeadline } from '../../../core/deadline.js'
import type { ProbeRuntime } from '../../shared/doctor/findings.js'
import { redisError, redisErrorCode } from '../errors.js'
import type { RedisNode } from '../link.js'

export type { ProbeRuntime } from '../../shared/doctor/findings.js'

/** Generous: an examination that gives up early finds nothing. */
const ANSWER_MS = 10_000

export interface Refusal {
  readonly code: string
  readonly message: string
}

export type Answer = { readonly value: unknown } | { readonly refusal: Refusal }

/** The answer, or why the server refused. Rejects where there is no answer at all. */
export async function ask(runtime: ProbeRuntime, call: () => Promise<unknown>): Promise<Answer> {
  const context = { resource: null, backend: 'redis' }
  try {
    return { value: await withDeadline(runtime.timers, ANSWER_MS, true, call(), context) }
  } catch (error) {
    const code = redisErrorCode(error)
    if (code === null || SILENT.has(code)) throw redisError(error)
    return { refusal: { code, message: (error as Error).message } }
  }
}

/** With these, nothing else would be answered either. */
const SILENT: ReadonlySet<string> = new Set(['NOAUTH', 'WRONGPASS', 'LOADING', 'BUSY', 'NOPROTO'])

/** What a server tells about itself. */
export interface Facts {
  /** What INFO says; empty where it may not be asked. */
  readonly info: ReadonlyMap<string, string>
  /** The settings that could be read, by name. */
  readonly config: ReadonlyMap<string, string>
  /** The commands that this user may not use to look. */
  readonly hidden: readonly string[]
}

/** INFO tells the rest, and is allowed in more places. `CONFIG GET *` would bring passwords along. */
const SETTINGS = ['save', 'appendfsync', 'min-replicas-to-write', 'timeout'] as const

export async function factsOf(node: RedisNode, runtime: ProbeRuntime): Promise<Facts> {
  const hidden: string[] = []
  const info = await ask(runtime, () => node.send(['INFO']))
  if ('refusal' in info) hidden.push('INFO')
  const config = new Map<string, string>()
  for (const name of SETTINGS) {
    const answer = await ask(runtime, () => node.send(['CONFIG', 'GET', name]))
    if ('refusal' in answer) {
      hidden.push('CONFIG')
      break
    }
    const value = pairIn(answer.value, name)
    if (value !== null) config.set(name, value)
  }
  return { info: 'value' in info ? fieldsIn(info.value) : new Map(), config, hidden }
}

/** Lines of `name:value`, as INFO and CLUSTER INFO write them. */
export function fieldsIn(text: unknown): ReadonlyMap<string, string> {
  const fields = new Map<string, string>()
  for (const line of String(text).split(/\r?\n/)) {
    const colon = line.indexOf(':')
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1))
  }
  return fields
}

/** A list of names and values, or with the newer protocol a map of them. */
function pairIn(answer: unknown, name: string): string | null {
  const found: unknown = Array.isArray(answer)
    ? answer[answer.indexOf(name) + 1]
    : answer instanceof Map
      ? answer.get(name)
      : typeof answer === 'object' && answer !== null
        ? Reflect.get(answer, name)
        : null
  return typeof found === 'string' ? found : null
}

export function numberIn(fields: ReadonlyMap<string, string>, name: string): number | null {
  const text = fields.get(name)
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : null
}
