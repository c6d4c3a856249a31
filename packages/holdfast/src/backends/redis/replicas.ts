/** A call of a script that counts only when replicas have what it wrote. */

import { redisErrorCode } from './errors.js'
import type { RedisLink } from './link.js'
import type { Script } from './script.js'
import { togetherOn } from './slot.js'

export interface ReplicaOptions {
  /** How many replicas must confirm; 0 asks none. */
  readonly waitReplicas: number
  readonly waitReplicasMs: number
}

/** One run of a script. */
export interface ScriptCall {
  readonly keys: readonly string[]
  readonly args: readonly string[]
}

/** What the script has answered, and how many replicas have what it wrote. */
export interface Confirmed {
  readonly answer: unknown
  readonly replicas: number
}

/** How many calls go before one WAIT, so that nobody waits long for the answer to a single one. */
const TOGETHER_MAX = 64

interface Pending extends ScriptCall {
  readonly key: string
  readonly resolve: (confirmed: Confirmed) => void
  readonly reject: (error: unknown) => void
}

/** WAIT blocks its connection, so what is asked for in one turn of the event loop is confirmed by one of them. */
export class ConfirmedCalls {
  readonly #link: RedisLink
  readonly #script: Script
  readonly #options: ReplicaOptions
  #pending: Pending[] = []

  constructor(link: RedisLink, script: Script, options: ReplicaOptions) {
    this.#link = link
    this.#script = script
    this.#options = options
  }

  run(key: string, args: readonly string[]): Promise<Confirmed> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ key, keys: [key], args, resolve, reject })
      if (this.#pending.length === 1) process.nextTick(() => this.#flush())
    })
  }

  #flush(): void {
    const pending = this.#pending
    this.#pending = []
    for (const group of togetherOn(this.#link, pending, ({ key }) => key)) {
      for (let from = 0; from < group.length; from += TOGETHER_MAX) {
        void this.#send(group.slice(from, from + TOGETHER_MAX))
      }
    }
  }

  async #send(calls: readonly Pending[]): Promise<void> {
    try {
      const { answers, replicas } = await runAllConfirmed(this.#link, this.#script, calls, this.#options)
      for (const [index, { resolve, reject }] of calls.entries()) {
        const answer = answers[index]
        if (answer instanceof Error) reject(answer)
        else resolve({ answer, replicas })
      }
    } catch (error) {
      for (const { reject } of calls) reject(error)
    }
  }
}

export async function runConfirmed(
  link: RedisLink,
  script: Script,
  call: ScriptCall,
  options: ReplicaOptions,
): Promise<Confirmed> {
  const { answers, replicas } = await runAllConfirmed(link, script, [call], options)
  const [answer] = answers
  if (answer instanceof Error) throw answer
  return { answer, replicas }
}

/** Gives one answer or error for each call. A server that does not know the script gets its text, and has done nothing before. */
async function runAllConfirmed(
  link: RedisLink,
  script: Script,
  calls: readonly ScriptCall[],
  options: ReplicaOptions,
): Promise<{ readonly answers: readonly unknown[]; readonly replicas: number }> {
  const key = calls[0]?.keys[0] as string
  const commands = calls.map(({ keys, args }) => script.byDigest(keys, args))
  const { answers, replicas } = await sendConfirmed(link, key, commands, options)
  const unknown = [...calls.keys()].filter((index) => redisErrorCode(answers[index]) === 'NOSCRIPT')
  if (unknown.length === 0) return { answers, replicas }
  const texts = unknown.map((index) => script.byText(calls[index]?.keys ?? [], calls[index]?.args ?? []))
  const again = await sendConfirmed(link, key, texts, options)
  const all = [...answers]
  for (const [nth, index] of unknown.entries()) all[index] = again.answers[nth]
  const isAll = unknown.length === calls.length
  return { answers: all, replicas: isAll ? again.replicas : Math.min(replicas, again.replicas) }
}

/**
 * Sends the commands and asks how many replicas have what they wrote. WAIT speaks only of what was written over its own
 * connection, and on another one it would confirm what it has never seen; so the connection is identified before and
 * after, and an answer from any other counts as nothing.
 */
async function sendConfirmed(
  link: RedisLink,
  key: string,
  commands: readonly (readonly string[])[],
  { waitReplicas, waitReplicasMs }: ReplicaOptions,
): Promise<{ readonly answers: readonly unknown[]; readonly replicas: number }> {
  const all = await link.sendTogether(key, [
    ['CLIENT', 'INFO'],
    ...commands,
    ['WAIT', String(waitReplicas), String(waitReplicasMs)],
    ['CLIENT', 'INFO'],
  ])
  const [replicas, after] = all.slice(-2)
  const same = connectionOf(all[0]) !== null && connectionOf(all[0]) === connectionOf(after)
  return {
    answers: all.slice(1, -2),
    replicas: same && !(replicas instanceof Error) ? Number(replicas) : 0,
  }
}

/** Server address, client address and number: no two connections have all three in common. */
function connectionOf(info: unknown): string | null {
  if (typeof info !== 'string') return null
  const id = /\bid=(\d+)/.exec(info)
  const addr = /\baddr=(\S+)/.exec(info)
  const laddr = /\bladdr=(\S+)/.exec(info)
  return id && addr && laddr ? `${id[1]} ${addr[1]} ${laddr[1]}` : null
}
