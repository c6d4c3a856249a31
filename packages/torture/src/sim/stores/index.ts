import type { SeededRandom } from 'holdfast/testing'
import { BlockingStore } from './blocking.js'
import { LeasedStore } from './leased.js'
import { LossyStore } from './lossy.js'
import { SessionStore } from './session.js'
import { SteppingStore } from './stepping.js'
import type { SimStore, StoreSetting, StoreType } from './store.js'
import { UnfencedStore } from './unfenced.js'

const MAKERS: Readonly<Record<StoreType, new (setting: StoreSetting) => SimStore>> = {
  leased: LeasedStore,
  unfenced: UnfencedStore,
  blocking: BlockingStore,
  session: SessionStore,
  lossy: LossyStore,
  stepping: SteppingStore,
}

/** Most defects show on the leased queue, so it has more worlds than the others. */
const SHARES: readonly StoreType[] = [
  'leased',
  'leased',
  'leased',
  'leased',
  'leased',
  'unfenced',
  'blocking',
  'session',
  'lossy',
  'stepping',
]

export function chooseType(random: SeededRandom): StoreType {
  return random.pick(SHARES)
}

export function makeStore(type: StoreType, setting: StoreSetting): SimStore {
  return new MAKERS[type](setting)
}
