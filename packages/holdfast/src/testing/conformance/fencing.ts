import assert from 'node:assert/strict'
import { StaleFenceError } from '../../core/errors.js'
import { FenceGate } from '../../fencing/gate.js'
import { needsClaims, needsCrash, needsFences, needsLease, needsWeights, type Theme } from './theme.js'
import { PATIENCE_MS, sleep } from './waiting.js'

/** The largest number that every kind of resource can compare. */
const FENCE_MAX = 2n ** 63n - 1n

function assertRising(fences: readonly bigint[]): void {
  for (const [index, fence] of fences.entries()) {
    assert(fence > 0n && fence <= FENCE_MAX, `Fence ${fence} is out of range.`)
    const before = fences[index - 1]
    assert(before === undefined || fence > before, `Fence ${fence} came after ${before}.`)
  }
}

export const fencing: Theme = {
  name: 'fencing',
  tags: ['fencing'],
  needs: [needsFences],
  cases: [
    {
      title: 'fences rise over hand-overs between clients',
      async run(bench) {
        const clients = await bench.clients(3)
        const fences: bigint[] = []
        for (let round = 0; round < 9; round += 1) {
          const locks = clients[round % clients.length]
          await locks?.mutex('fenced').run((hold) => void fences.push(hold.fence), { waitMs: PATIENCE_MS })
        }
        assert.equal(fences.length, 9)
        assertRising(fences)
      },
    },
    {
      title: 'fences rise over hand-overs within one client',
      async run(bench) {
        const locks = await bench.connect()
        const fences: bigint[] = []
        const once = (): Promise<void> => locks.mutex('fenced').run((hold) => void fences.push(hold.fence))
        await Promise.all(Array.from({ length: 40 }, once))
        assert.equal(fences.length, 40)
        assertRising(fences)
      },
    },
    {
      title: 'fences rise where hand-overs within and between clients mix',
      async run(bench) {
        const clients = await bench.clients(3)
        const fences: bigint[] = []
        const work = async (task: number): Promise<void> => {
          const mutex = clients[task % clients.length]?.mutex('fenced')
          for (let round = 0; round < 5; round += 1) {
            await mutex?.run((hold) => void fences.push(hold.fence), { waitMs: 3 * PATIENCE_MS })
          }
        }
        await Promise.all(Array.from({ length: 12 }, (_, task) => work(task)))
        assert.equal(fences.length, 60)
        assertRising(fences)
      },
    },
    {
      title: 'the fence rises when a lease has run out',
      needs: [needsLease],
      async run(bench) {
        const [a, b] = await bench.pair()
        const first = await a.mutex('fenced').acquire({ ttlMs: bench.shortMs, renew: false })
        const before = first.fence
        await using second = await b.mutex('fenced').acquire({ waitMs: bench.shortMs + PATIENCE_MS })
        assertRising([before, second.fence])
        await first.release()
      },
    },
    {
      title: 'the fence rises after an eviction',
      async run(bench) {
        const [a, b] = await bench.pair()
        const first = await a.mutex('fenced').acquire()
        const before = first.fence
        await b.evict('fenced', { reason: 'the suite asks for it' })
        await using second = await b.mutex('fenced').acquire({ waitMs: PATIENCE_MS })
        assertRising([before, second.fence])
        await first.release()
      },
    },
    {
      title: 'the fence rises after the holder was killed',
      needs: [needsCrash],
      async run(bench) {
        const { fence } = await bench.crash('fenced', { ttlMs: bench.shortMs })
        const locks = await bench.connect()
        await using hold = await locks.mutex('fenced').acquire({ waitMs: 2 * bench.shortMs + PATIENCE_MS })
        assert(fence !== null, 'The crash hook gave no fence.')
        assertRising([fence, hold.fence])
      },
    },
    {
      title: 'the fence rises after everybody has left and the resource was empty',
      async run(bench) {
        const fences: bigint[] = []
        for (let round = 0; round < 3; round += 1) {
          const locks = await bench.connect()
          await locks.mutex('fenced').run((hold) => void fences.push(hold.fence))
          await locks.close()
          await sleep(5)
        }
        assertRising(fences)
      },
    },
    {
      title: 'a writer has a higher fence than the readers before it and a lower one than those after it',
      needs: [needsWeights],
      async run(bench) {
        const [a, b] = await bench.pair()
        const reader = await a.readWrite('fenced').read().acquire()
        const before = reader.fence
        await reader.release()
        const writer = await b.readWrite('fenced').write().acquire({ waitMs: PATIENCE_MS })
        const between = writer.fence
        await writer.release()
        await using after = await a.readWrite('fenced').read().acquire({ waitMs: PATIENCE_MS })
        assertRising([before, between, after.fence])
      },
    },
    {
      title: 'inspect() shows the fence that the holder has',
      needs: [needsClaims],
      async run(bench) {
        const [a, b] = await bench.pair()
        await using hold = await a.mutex('fenced').acquire()
        const { holders } = await b.inspect('fenced')
        assert.equal(holders[0]?.fence, hold.fence)
      },
    },
    {
      title: 'a gate that has seen the new holder refuses the old one',
      async run(bench) {
        const [a, b] = await bench.pair()
        const gate = new FenceGate()
        const old = await a.mutex('fenced').acquire()
        gate.pass('fenced', old.fence)
        await bench.store.sever('fenced')
        await using fresh = await b.mutex('fenced').acquire({ waitMs: PATIENCE_MS })
        gate.pass('fenced', fresh.fence)
        assert.throws(() => gate.pass('fenced', old.fence), StaleFenceError)
        gate.pass('fenced', fresh.fence)
        await old.release()
      },
    },
  ],
}
