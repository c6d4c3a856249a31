import { expect } from 'vitest'
import { until } from '../../../../../test/support/wait.js'
import { expectProblem, type HttpBench, type Sender } from '../bench.js'
import type { HttpCase } from '../suite.js'
import { FILE_TEXT, Gate, LATE_PARTS, LATE_WAYS, type LateWay } from '../world.js'

/** Ways in which nobody learns that the client is gone, so that there is an answer whatever the framework. */
const UNAWARE: readonly LateWay[] = ['pipe', 'generator', 'drain']

interface Left {
  readonly path: string
  readonly key: string
  /** Whether its answer must be there; otherwise it may also be known not to be. */
  readonly replays: boolean
}

/** Until it is no longer in progress; then it was done once. */
async function expectDoneOnce(bench: HttpBench, send: Sender, { path, key, replays }: Left): Promise<void> {
  await until(`${path} is no longer in progress`, async () => {
    const { headers } = await send({ path, key })
    return headers['retry-after'] === undefined
  })
  const again = await send({ path, key })
  expect(bench.world.count(path)).toBe(1)
  if (!again.replayed && !replays) {
    expectProblem(again, 409, 'idempotency-result-not-replayable', false)
    return
  }
  expect(again.replayed).toBe(true)
  expect([again.status, again.text === textOf(path)]).toEqual([200, true])
}

function textOf(path: string): string {
  if (path.includes('-nothing/')) return ''
  return path.includes('-file/') ? FILE_TEXT : LATE_PARTS.join('')
}

/** The gate is closed when the client leaves, and opened when the server knows of it. */
async function leaveAtGate(bench: HttpBench, route: string, replays: boolean): Promise<void> {
  const [first, second] = await bench.pair()
  const ask = { path: bench.path(route), key: bench.key() }
  const gate = bench.world.gate(ask.path)
  await bench.leave(first, ask, () => bench.world.begun(ask.path))
  gate.open()
  await expectDoneOnce(bench, second, { ...ask, replays })
}

async function leaveAtClaim(bench: HttpBench, route: string, replays: boolean): Promise<void> {
  const [claimed, asked] = [new Gate(), new Gate()]
  const slow = await bench.client(
    {},
    {
      claim: async (_ask, next) => {
        asked.open()
        await claimed.passed
        return await next()
      },
    },
  )
  const [first, second] = [await bench.server({}, slow), await bench.server()]
  const ask = { path: bench.path(route), key: bench.key() }
  await bench.leave(first, ask, () => asked.passed)
  claimed.open()
  await bench.world.begun(ask.path)
  await expectDoneOnce(bench, second, { ...ask, replays })
}

const casesOf = (way: LateWay): readonly HttpCase[] => [
  {
    title: `49. what is answered after a while arrives whole, and comes again (${way})`,
    async run(bench) {
      const [first, second] = await bench.pair()
      const ask = { path: bench.path(`late-${way}`), key: bench.key() }
      const fresh = await first(ask)
      expect([fresh.status, fresh.text === textOf(ask.path)]).toEqual([200, true])
      const again = await second(ask)
      expect([again.replayed, again.text === fresh.text]).toEqual([true, true])
    },
  },
  {
    title: `52. a client that leaves between the effect and the answer does not make it run again (${way})`,
    run: (bench) => leaveAtGate(bench, `late-${way}`, UNAWARE.includes(way)),
  },
  {
    title: `52. a client that leaves while the store is asked does not make it run again (${way})`,
    run: (bench) => leaveAtClaim(bench, `late-${way}`, UNAWARE.includes(way)),
  },
]

/** Of a file the first byte is there at once. */
const BEGUN_WAYS = LATE_WAYS.filter((way) => way !== 'file' && way !== 'nothing')

const begunCases: readonly HttpCase[] = BEGUN_WAYS.map((way) => ({
  title: `52. a client that leaves before the first byte of an answer does not make it run again (${way})`,
  // What was piped before is taken off when the client leaves.
  run: (bench) => leaveAtGate(bench, `begun-${way}`, UNAWARE.includes(way) && way !== 'pipe'),
}))

export const leaving: readonly HttpCase[] = [...LATE_WAYS.flatMap(casesOf), ...begunCases]
