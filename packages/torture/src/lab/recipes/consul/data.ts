import type { LabHold } from '../../lock.js'
import type { Protected } from '../ours.js'
import { ConsulClient } from './client.js'

function keyOf(name: string): string {
  return `data/${name}`
}

/** Numbers in a key of Consul that anybody may write, at any time. */
export class PlainData implements Protected {
  readonly #consul: ConsulClient

  constructor(url: string) {
    this.#consul = new ConsulClient(url)
  }

  async read(name: string): Promise<readonly number[]> {
    return numbersIn((await this.#consul.get(keyOf(name)))?.value)
  }

  async write(name: string, values: readonly number[]): Promise<void> {
    await this.#consul.put(keyOf(name), values.join(','))
  }

  async close(): Promise<void> {}
}

/** The same numbers with the highest fence that was shown for them in front. A lower one is refused. */
export class FencedData implements Protected {
  readonly #consul: ConsulClient

  constructor(url: string) {
    this.#consul = new ConsulClient(url)
  }

  /** Shows the fence first: from then on nobody with a lower one can change what is read. */
  async read(name: string, hold: LabHold | null): Promise<readonly number[]> {
    return await this.#change(name, fenceOf(hold), (values) => values)
  }

  async write(name: string, values: readonly number[], hold: LabHold | null): Promise<void> {
    await this.#change(name, fenceOf(hold), () => values)
  }

  async close(): Promise<void> {}

  async #change(name: string, fence: bigint, change: (values: Numbers) => Numbers): Promise<Numbers> {
    for (;;) {
      const found = await this.#consul.get(keyOf(name))
      const [highest = '0', text] = found?.value.split(' ') ?? []
      if (fence < BigInt(highest)) throw new StaleFence(highest)
      const values = change(numbersIn(text))
      // Written only if nobody has changed it since it was read; otherwise all is looked at again.
      const asRead = `cas=${found?.modifyIndex ?? 0}`
      if (await this.#consul.put(keyOf(name), `${fence} ${values.join(',')}`, asRead)) return values
    }
  }
}

type Numbers = readonly number[]

function numbersIn(text: string | undefined): Numbers {
  return text === undefined || text === '' ? [] : text.split(',').map(Number)
}

class StaleFence extends Error {
  readonly code = 'STALE_FENCE'

  constructor(highest: string) {
    super(`The fence ${highest} has been here already.`)
    this.name = 'StaleFence'
  }
}

function fenceOf(hold: LabHold | null): bigint {
  if (hold?.fence === undefined) throw new Error('Nobody writes here without a fence.')
  return hold.fence
}
