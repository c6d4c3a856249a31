// @module-tag exclusion
import type mysql from 'mysql2/promise'
import { expect, it } from 'vitest'
import { atDepth } from '../../../../test/support/depth.js'
import type { Backend } from '../../src/core/backend.js'
import { compareHistories, type PlantedFault, planting, type TimedClients } from '../support/line-history.js'
import { describeMysql, type Place } from './support.js'

const AT_ONCE = 4
const START_MS = Date.UTC(2030, 0, 1)

/** Two clients whose connections have the clock in the hands of the test: `timestamp` is what UTC_TIMESTAMP follows. */
class Clients implements TimedClients {
  readonly backends: readonly Backend[]
  readonly #pools: readonly mysql.Pool[]
  now = START_MS

  constructor(backends: readonly Backend[], pools: readonly mysql.Pool[]) {
    this.backends = backends
    this.#pools = pools
  }

  async goTo(now: number): Promise<void> {
    this.now = now
    const seconds = `${Math.floor(now / 1_000)}.${String(now % 1_000).padStart(3, '0')}`
    for (const pool of this.#pools) await pool.query(`SET SESSION timestamp = ${seconds}`)
  }
}

async function clientsOf(
  place: Place,
  tablePrefix: string,
  change?: (text: string) => string,
): Promise<Clients> {
  const pools = [place.pool({ connectionLimit: 1 }), place.pool({ connectionLimit: 1 })]
  const backends: Backend[] = []
  for (const pool of pools) {
    backends.push(await place.backend({ pool, tablePrefix, ...(change === undefined ? {} : { change }) }))
  }
  return new Clients(backends, pools)
}

const FAULTS: readonly PlantedFault[] = [
  ['an expired claim still counts', 'v_first > v_now THEN LEAVE look', 'v_first >= v_now THEN LEAVE look'],
  ['the limit is one too high', 'v_total + p_weight <= p_limit', 'v_total + p_weight <= p_limit + 1'],
  ['a claim is not looked for', 'MAX(IF(id = p_id, fence, NULL))', 'NULL'],
  ['a weight does not shrink', 'SET weight = LEAST(weight, p_weight)', 'SET weight = weight'],
  ['a weight may grow', 'LEAST(v_weight, p_weight)', 'p_weight'],
  ['asking is a heartbeat', 'IF v_lease < p_lease_us / 2 THEN', 'IF TRUE THEN'],
  ['a renewal revives', 'WHERE place.expires_at > v_now', 'WHERE TRUE'],
  ['a renewal shortens', 'GREATEST(place.expires_at, v_now + asked.lease_us)', 'v_now + asked.lease_us'],
  ['a renewal keeps any place', 'place.fence = asked.fence AND', 'place.fence > 0 AND'],
  ['the first is not told that it is not alone', 'SET is_alone = 0', 'SET is_alone = 1'],
  ['the first row goes before the line is empty', 'IF EXISTS (SELECT 1', 'IF FALSE AND EXISTS (SELECT 1'],
  ['whoever has others behind it leaves a gap', 'AND is_alone = 1 AND expires_at', 'AND expires_at'],
  ['one that has run out is given back', 'SET v_live = v_expires >', 'SET v_live = v_expires <> 1 OR 0 <'],
]

const HISTORIES = atDepth(60, 600)

await describeMysql('the line in SQL and the rule', (place) => {
  it(`agree on ${HISTORIES} random histories over two clients`, async () => {
    const runs = Array.from({ length: AT_ONCE }, async (_, run) => {
      const clients = await clientsOf(place, 'holdfast_')
      const seeds = Array.from({ length: HISTORIES / AT_ONCE }, (__, index) => 1 + run + index * AT_ONCE)
      await compareHistories(clients, seeds)
    })
    await Promise.all(runs)
  })

  it.each(FAULTS.map((fault, index) => [...fault, index] as const))(
    'would notice that %s',
    async (_, find, replace, index) => {
      const plant = planting(find, replace)
      const clients = await clientsOf(place, `fault${index}_`, (text) => plant.change(text))
      const seeds = Array.from({ length: 100 }, (__, seed) => 1_000 + seed)
      await expect(compareHistories(clients, seeds)).rejects.toThrow()
      expect(plant.found()).toBeGreaterThan(0)
    },
  )
})
