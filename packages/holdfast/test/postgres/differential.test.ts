// @module-tag exclusion
import { storeFor } from 'holdfast-servers'
import pg from 'pg'
import { afterAll, describe, expect, it } from 'vitest'
import { atDepth } from '../../../../test/support/depth.js'
import { titled } from '../../../../test/support/titled.js'
import { backendOver } from '../../src/backends/postgres/backend.js'
import { pgLink } from '../../src/backends/postgres/link.js'
import type { Backend } from '../../src/core/backend.js'
import { NO_SINK } from '../support/claims.js'
import { compareHistories, type PlantedFault, planting, type TimedClients } from '../support/line-history.js'
import { SET_TIME, timed } from './timed.js'

const outcome = await storeFor('postgres')
const START_MS = Date.UTC(2030, 0, 1)
const AT_ONCE = 3
const HISTORIES = atDepth(120, 1_200)

class Clients implements TimedClients {
  readonly backends: Backend[] = []
  readonly #pools: pg.Pool[] = []
  now = START_MS

  async open(
    url: string,
    tablePrefix: string,
    change: (text: string) => string = (text) => text,
  ): Promise<this> {
    for (let count = 0; count < 2; count += 1) {
      const pool = new pg.Pool({ connectionString: url, max: 1 })
      this.#pools.push(pool)
      const link = timed(pgLink(pool, { prepare: true, end: async () => {} }), change)
      const backend = backendOver(link, { tablePrefix, wake: 'poll' })
      await backend.migrate?.()
      await backend.open(NO_SINK)
      this.backends.push(backend)
    }
    return this
  }

  async goTo(now: number): Promise<void> {
    this.now = now
    for (const pool of this.#pools) await pool.query(SET_TIME, [now / 1_000])
  }

  async close(): Promise<void> {
    for (const backend of this.backends) await backend.close()
    for (const pool of this.#pools) await pool.end()
  }
}

const FAULTS: readonly PlantedFault[] = [
  [
    'an expired claim still counts',
    'EXIT WHEN v_row.expires_at <= v_now',
    'EXIT WHEN v_row.expires_at < v_now',
  ],
  ['the limit is one too high', 'v_sum + p_weight <= p_limit', 'v_sum + p_weight <= p_limit + 1'],
  ['a claim is not looked for', 'ELSIF v_row.id = p_id THEN', 'ELSIF false THEN'],
  ['a weight does not shrink', 'SET weight = least(v_own.weight, p_weight)', 'SET weight = v_own.weight'],
  ['a weight may grow', 'v_sum + least(v_own.weight, p_weight) <= p_limit', 'v_sum + p_weight <= p_limit'],
  ['asking is a heartbeat', 'CASE WHEN v_left < p_lease_us / 2 THEN', 'CASE WHEN true THEN'],
  ['a renewal revives', 'AND p.expires_at > (extract', 'AND 0 < (extract'],
  [
    'a renewal shortens',
    'SET expires_at = greatest(p.expires_at, (extract',
    'SET expires_at = greatest(0, (extract',
  ],
  ['a renewal keeps any place', 'AND p.fence = a.fence', ''],
  ['the first is not told that it is not alone', 'SET is_alone = false', 'SET is_alone = true'],
  ['the first row goes before the line is empty', 'IF EXISTS (SELECT 1', 'IF false AND EXISTS (SELECT 1'],
  ['whoever has others behind it leaves a gap', 'AND is_alone AND expires_at', 'AND expires_at'],
  ['one that has run out is given back', 'RETURN v_row.expires_at > v_now', 'RETURN true'],
  ['the shape is not looked at', 'v_row.kind <> p_kind OR v_row.line_limit <> p_limit', 'false'],
  ['the wrong holder is named', 'IF ahead = 0 THEN\n          host', 'IF true THEN\n          host'],
]

describe.skipIf(outcome.kind === 'not run')(
  titled('the line in PL/pgSQL and the rule', outcome.kind === 'not run' ? outcome.reason : null),
  () => {
    if (outcome.kind === 'not run') return
    const { url } = outcome.store
    const opened: Clients[] = []
    afterAll(async () => {
      for (const clients of opened) await clients.close()
      await outcome.store.dispose()
    })

    const open = async (prefix: string, change?: (text: string) => string): Promise<Clients> => {
      const clients = new Clients()
      opened.push(clients)
      return await clients.open(url, prefix, change)
    }

    it(`agree on ${HISTORIES} random histories over two clients`, async () => {
      const runs = Array.from({ length: AT_ONCE }, async (_, run) => {
        const seeds = Array.from({ length: HISTORIES / AT_ONCE }, (__, index) => 1 + run + index * AT_ONCE)
        await compareHistories(await open(`line${run}_`), seeds)
      })
      await Promise.all(runs)
    })

    it.each(FAULTS.map((fault, index) => [...fault, index] as const))(
      'would notice that %s',
      async (_, find, replace, index) => {
        const plant = planting(find, replace)
        const clients = await open(`fault${index}_`, (text) => plant.change(text))
        const seeds = Array.from({ length: 100 }, (__, seed) => 1_000 + seed)
        await expect(compareHistories(clients, seeds)).rejects.toThrow()
        expect(plant.found()).toBeGreaterThan(0)
      },
    )
  },
)
