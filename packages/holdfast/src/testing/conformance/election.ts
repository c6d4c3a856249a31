import assert from 'node:assert/strict'
import { pid } from 'node:process'
import { LockLostError } from '../../core/errors.js'
import type { Leader } from '../../primitives/election.js'
import { needsClaims, type Theme } from './theme.js'
import { asError, later, PATIENCE_MS, rejectionOf, staysPending, until } from './waiting.js'

export const election: Theme = {
  name: 'election',
  tags: ['exclusion'],
  cases: [
    {
      title: 'one candidate leads, and everybody sees who',
      needs: [needsClaims],
      async run(bench) {
        const [a, b] = await bench.pair()
        assert.equal(await b.election('office').leader(), null)
        await using leadership = await a.election('office').campaign({ note: '10.0.0.1:8080' })
        leadership.assertHeld()
        const leader = await b.election('office').leader()
        assert.equal(leader?.note, '10.0.0.1:8080')
        assert.equal(leader.owner.pid, pid)
        if (bench.guarantees.fencing !== 'none') assert.equal(leader.fence, leadership.fence)
      },
    },
    {
      title: 'another candidate waits and leads when the first resigns',
      needs: [needsClaims],
      async run(bench) {
        const [a, b] = await bench.pair()
        const first = await a.election('office').campaign({ note: 'first' })
        const next = later(b.election('office').campaign({ note: 'second', waitMs: 2 * PATIENCE_MS }))
        assert(await staysPending(next, 100), 'Two lead at once.')
        assert.equal((await b.election('office').leader())?.note, 'first')
        await first.resign()
        assert.equal(first.isHeld, false)
        await using second = await next
        assert.equal((await a.election('office').leader())?.note, 'second')
        if (bench.guarantees.fencing !== 'none') assert(second.fence > first.fence)
      },
    },
    {
      title: 'a leader that loses its office is told, and the next one leads',
      async run(bench) {
        const b = await bench.connect()
        const a = await bench.connect({ ttlMs: bench.keptMs })
        const first = await a.election('office').campaign()
        await bench.store.sever('office')
        await using second = await b.election('office').campaign({ waitMs: PATIENCE_MS })
        await until(() => first.signal.aborted, 'the signal of the former leader aborts', {
          limitMs: 2 * PATIENCE_MS,
        })
        asError(LockLostError, first.signal.reason)
        await first.resign()
        second.assertHeld()
      },
    },
    {
      title: 'observe() gives the present leader and then every change',
      needs: [needsClaims],
      async run(bench) {
        const [a, b, c] = await bench.trio()
        const controller = new AbortController()
        const seen: (string | null)[] = []
        const watch = async (): Promise<void> => {
          const options = { everyMs: 20, signal: controller.signal }
          for await (const leader of c.election('office').observe(options)) seen.push(noteOf(leader))
        }
        const watching = later(watch())
        await until(() => seen.length === 1, 'that nobody leads is seen')
        const first = await a.election('office').campaign({ note: 'first' })
        await until(() => seen.length === 2, 'the first leader is seen')
        await first.resign()
        await until(() => seen.length === 3, 'the resignation is seen')
        await using _second = await b.election('office').campaign({ note: 'second', waitMs: PATIENCE_MS })
        await until(() => seen.length === 4, 'the second leader is seen')
        const reason = new Error('seen enough')
        controller.abort(reason)
        assert.equal(await rejectionOf(watching), reason)
        assert.deepEqual(seen, [null, 'first', null, 'second'])
      },
    },
    {
      title: 'two leaderships of one process are told apart',
      needs: [needsClaims],
      async run(bench) {
        const locks = await bench.connect()
        const refs = new Set<string | undefined>()
        for (let term = 0; term < 3; term += 1) {
          const leadership = await locks.election('office').campaign()
          refs.add((await locks.election('office').leader())?.ref)
          await leadership.resign()
        }
        assert.equal(refs.size, 3)
      },
    },
  ],
}

function noteOf(leader: Leader | null): string | null {
  return leader?.note ?? null
}
