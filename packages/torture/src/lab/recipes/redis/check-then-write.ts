import type { LabWorld } from '../../lock.js'
import { dataUrlOf, PlainData } from './data.js'
import { OwnedKey } from './owned-key.js'

/** A lock that is asked right before the write, and data that take every write. */
export class CheckThenWrite extends OwnedKey {
  readonly #data: PlainData

  constructor(world: LabWorld) {
    super(world)
    this.#data = new PlainData(dataUrlOf(world))
  }

  async read(name: string): Promise<readonly number[]> {
    return await this.#data.read(name)
  }

  async write(name: string, values: readonly number[]): Promise<void> {
    await this.#data.write(name, values)
  }

  override async close(): Promise<void> {
    await super.close()
    await this.#data.close()
  }
}
