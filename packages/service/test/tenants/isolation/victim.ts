/** A tenant that does its work while another one floods the service. It checks every answer and measures how long it took. */

import { performance } from 'node:perf_hooks'
import { pathOf } from '../../security/running-service.js'
import { textIn, type Wire } from '../wire.js'

const KEY = { scope: { tenant: 'calm', operation: 'pay' } }

export class Victim {
  readonly #wire: Wire
  readonly #token: string
  readonly wrong: string[] = []
  #fence = -1n
  #count = 0

  constructor(wire: Wire, token: string) {
    this.#wire = wire
    this.#token = token
  }

  /** Works for so many cycles. Returns how long each request took, in milliseconds. */
  async work(cycles: number): Promise<readonly number[]> {
    const times: number[] = []
    for (let cycle = 0; cycle < cycles; cycle += 1) await this.#cycle(times)
    return times
  }

  async #cycle(times: number[]): Promise<void> {
    this.#count += 1
    const name = `calm/${this.#count % 5}`
    const first = await this.#ask(times, 200, pathOf(name, 'acquire'), { ttlMs: 60_000, note: 'calm' })
    const { claim } = first
    const fence = BigInt(textIn(first, 'fence') || -1)
    if (fence <= 0n) this.wrong.push(`no fence: ${JSON.stringify(first).slice(0, 200)}`)
    this.#fence = fence
    await this.#ask(times, 423, pathOf(name, 'acquire'), {})
    await this.#ask(times, 200, pathOf(name, 'renew'), { claim })
    const seen = await this.#ask(times, 200, pathOf(name))
    const holders = seen['holders'] as readonly { readonly fence: string }[] | undefined
    if (holders?.length !== 1 || holders[0]?.fence !== String(this.#fence))
      this.wrong.push(`other holders: ${JSON.stringify(seen).slice(0, 200)}`)
    const released = await this.#ask(times, 200, pathOf(name, 'release'), { claim })
    if (released['outcome'] !== 'released') this.wrong.push(`not released: ${JSON.stringify(released)}`)
    await this.#ask(times, 201, '/v1/records/claim', { ...KEY, key: `k${this.#count}`, leaseMs: 60_000 })
  }

  async #ask(times: number[], expected: number, path: string, body?: unknown) {
    const method = body === undefined ? 'GET' : 'POST'
    const before = performance.now()
    const { answer } = await this.#wire.send({ method, path, token: this.#token, body })
    times.push(performance.now() - before)
    if (answer?.status !== expected)
      this.wrong.push(
        `${method} ${path}: ${answer?.status} instead of ${expected}, ${answer?.text.slice(0, 200)}`,
      )
    if (answer?.text.includes('flood') === true)
      this.wrong.push(`it shows the other tenant: ${answer.text.slice(0, 200)}`)
    return answer?.json ?? {}
  }
}

export function percentile(times: readonly number[], part: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5)
}
