/** What is done to the items of a server, each as one command. The meta commands: https://docs.memcached.org/protocols/meta/ */

import type { MemcachedClient } from './client.js'
import { clockUnset, refusal, strangeAnswer } from './errors.js'
import { isDate } from './ticks.js'
import { type Answer, casFlag, isFailure, numberFlag, statsIn } from './wire.js'

export interface Item {
  readonly data: string
  readonly version: Version
  /** How many ticks it has left; -1 where it never ends. */
  readonly left: number
}

/** `changed`: somebody else was there. `gone`: there is no such item. */
export type Missed = 'changed' | 'gone'

/** What changes an item only if it is as it was: the number of the change, and the connection that it was heard on. */
export interface Version {
  /** The number of the change that it is in. The numbers begin again with the server. */
  readonly cas: string
  readonly generation: number
}

export class Items {
  readonly #client: MemcachedClient

  constructor(client: MemcachedClient) {
    this.#client = client
  }

  get generation(): number {
    return this.#client.generation
  }

  /** Stores it where there is nothing; null where there is something. */
  async add(key: string, data: string, ticks: number): Promise<Version | null> {
    const answer = await this.#client.request(
      `ms ${key} ${data.length} ME T${ticks} c\r\n${data}\r\n`,
      'meta',
    )
    const line = lineOf(answer)
    return line.startsWith('HD') ? this.#version(line) : fallsTo(line, { NS: null })
  }

  async read(key: string): Promise<Item | null> {
    return this.#item(await this.#client.request(`mg ${key} v c t\r\n`, 'meta'))
  }

  /** The same, and which date the server had right after that. */
  async readDated(key: string): Promise<{ readonly item: Item | null; readonly date: number }> {
    const [answer, stats] = await Promise.all([
      this.#client.request(`mg ${key} v c t\r\n`, 'meta'),
      this.#client.request('stats\r\n', 'list'),
    ])
    return { item: this.#item(answer), date: dateIn(statsOf(stats)) }
  }

  /** The second in which the process that this connection leads to was started, give or take what is the same for all. */
  async startedAt(generation: number): Promise<number> {
    const stats = statsOf(await this.#client.requestOn(generation, 'stats\r\n', 'list'))
    const uptime = Number(stats.get('uptime'))
    if (!Number.isSafeInteger(uptime)) throw strangeAnswer('no uptime')
    return dateIn(stats) - uptime
  }

  /** Stores it if the item is still the one that is meant. `expiry` is a number of ticks, or a date. */
  async replace(
    key: string,
    data: string,
    expiry: number,
    { cas, generation }: Version,
  ): Promise<Version | Missed> {
    const text = `ms ${key} ${data.length} C${cas} T${expiry} c\r\n${data}\r\n`
    const line = lineOf(await this.#client.requestOn(generation, text, 'meta'))
    return line.startsWith('HD') ? this.#version(line) : fallsTo(line, MISSES)
  }

  async remove(key: string, { cas, generation }: Version): Promise<'removed' | Missed> {
    const line = lineOf(await this.#client.requestOn(generation, `md ${key} C${cas}\r\n`, 'meta'))
    return line.startsWith('HD') ? 'removed' : fallsTo(line, MISSES)
  }

  #item(answer: Answer): Item | null {
    if (answer.kind !== 'value') {
      const line = lineOf(answer)
      if (line.startsWith('EN')) return null
      throw strangeAnswer(line)
    }
    const left = numberFlag(answer.flags, 't')
    if (left === null) throw strangeAnswer(answer.flags)
    return { data: answer.data, version: this.#version(answer.flags), left }
  }

  /** What is heard now was said on the connection of now, because one that ends takes its unread answers along. */
  #version(line: string): Version {
    const cas = casFlag(line)
    if (cas === null || cas === '0') throw strangeAnswer(line)
    return { cas, generation: this.#client.generation }
  }
}

/** With `ME`, an item that is not as it was gives `NS` on some versions. */
const MISSES = { EX: 'changed', NS: 'changed', NF: 'gone' } as const

function fallsTo<T>(line: string, outcomes: Readonly<Record<string, T>>): T {
  const outcome = outcomes[line.slice(0, 2)]
  if (outcome === undefined) throw strangeAnswer(line)
  return outcome
}

function statsOf(answer: Answer): ReadonlyMap<string, string> {
  if (answer.kind === 'list') return statsIn(answer.lines)
  throw strangeAnswer(answer.kind === 'line' ? answer.text : 'a value')
}

function dateIn(stats: ReadonlyMap<string, string>): number {
  const date = Number(stats.get('time'))
  if (!isDate(date)) throw clockUnset()
  return date
}

function lineOf(answer: Answer): string {
  if (answer.kind !== 'line') throw strangeAnswer('a value')
  if (isFailure(answer.text)) throw refusal(answer.text)
  return answer.text
}
