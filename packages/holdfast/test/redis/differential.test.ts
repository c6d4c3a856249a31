// @module-tag exclusion
import { startRedis } from 'holdfast-servers'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { atDepth } from '../../../../test/support/depth.js'
import { linkOf } from '../../src/backends/redis/driver.js'
import { claimOf, NO_SINK } from '../support/claims.js'
import { expectSame } from '../support/same.js'
import { compare, FUTURE_US, lineOver, type Scale, TimedLink } from './line-histories.js'

let server: Awaited<ReturnType<typeof startRedis>>
let client: Redis

beforeAll(async () => {
  server = await startRedis()
  client = new Redis(server.port)
})

afterAll(async () => {
  client.disconnect()
  await server.dispose()
})

const FEW: Scale = { histories: 64, claims: 6, jumpEvery: 3, leaveEvery: 1 }
/** With the limits of the script as they are, queues go up to about 50 claims and down again. */
const MANY: Scale = { histories: 8, claims: 70, jumpEvery: 40, leaveEvery: 2 }

function changed(find: string, replace: string): (script: string) => string {
  return (script) => {
    expectSame(script.split(find).length, 2, `times that the script has ${find}`)
    return script.replace(find, () => replace)
  }
}

/** Queues of four claims are sorted sets, so that nearly every step meets one, or makes or ends one. */
const LOW_LIMITS = changed('local LONG, SHORT = 32, 12', 'local LONG, SHORT = 3, 1')

describe('the line script and the rule', () => {
  it('agree on random steps: verdicts, lines and messages', async () => {
    const { long } = await compare(client, { ...FEW, steps: atDepth(25_000, 200_000), seed: 1 })
    expectSame(long, 0)
  })

  it('agree on random steps where a queue of four claims is a sorted set', async () => {
    const steps = atDepth(20_000, 100_000)
    const answered = await compare(client, { ...FEW, steps, seed: 3, change: LOW_LIMITS })
    expect(Math.min(answered.long, answered.short)).toBeGreaterThan(steps / 4)
  })

  it('agree on queues of up to 50 claims, which become sorted sets and texts again', async () => {
    const answered = await compare(client, { ...MANY, steps: atDepth(6_000, 40_000), seed: 4 })
    expect(Math.min(answered.long, answered.short)).toBeGreaterThan(500)
  })

  it.each([
    ['', 0, undefined],
    [', also through a queue that becomes a sorted set and a text again', 4, LOW_LIMITS],
  ])('keep fences growing when the clock of the server is set back%s', async (_, others, change) => {
    const timed = new TimedLink(linkOf(client), FUTURE_US, change)
    const { backend } = lineOver(timed.asLink())
    await backend.open(NO_SINK)
    const fences: bigint[] = []
    for (const backMs of [0, 1, 30_000, 20_000]) {
      timed.nowUs -= backMs * 1_000
      const claims = Array.from({ length: 1 + others }, () => claimOf('set back'))
      for (const claim of claims) {
        const verdict = await backend.attempt(claim, { waitMs: 1_000, leaseMs: 60_000 })
        fences.push((verdict as { fence: bigint }).fence)
      }
      for (const claim of claims) await backend.release(claim)
    }
    await backend.close()
    expectSame(timed.answered.long > 0, others > 0)
    const grow = fences.every((fence, index) => index === 0 || fence > (fences[index - 1] as bigint))
    expectSame(grow, true)
  })

  it.each([
    [
      'an expired claim still counts',
      'if entry.expires > NOW then\n        line',
      'if entry.expires >= NOW then\n        line',
    ],
    ['a renewal revives', 'if ends <= NOW or fence', 'if fence'],
    ['a renewal keeps any place', 'or fence ~= place then', 'then'],
    ['a renewal of several keeps any place', 'if entry and entry.fence == place then', 'if entry then'],
    [
      'the limit is one too high',
      'if sum > limit then return i - 1 end',
      'if sum > limit + 1 then return i - 1 end',
    ],
    ['a claim is not looked for', 'and not find_claim(value, id) then', 'then'],
    ['a fence is used twice', 'math.max(last_fence + 1, CLOCK)', 'math.max(last_fence + 0, CLOCK)'],
    ['no message is sent', "redis.pcall('PUBLISH', CHANNELS .. channel, message)", ''],
    ['a weight may grow', 'math.min(before, claim.weight)', 'claim.weight'],
  ])('would notice that %s', async (_, find, replace) => {
    const change = changed(find, replace)
    await expect(compare(client, { ...FEW, steps: 20_000, seed: 2, change })).rejects.toThrow()
  })

  it.each([
    ['an expired claim still counts', 'queue.first_end <= NOW', 'queue.first_end < NOW'],
    ['the weight of an expired holder stays', 'queue.admitted = queue.admitted - weight\n        end', 'end'],
    ['a renewal keeps any place', 'if fence and text(fence) == place then', 'if fence then'],
    ['a renewal is forgotten', "call('ZADD', key, 'GT', unpack(renewed))", ''],
    [
      'the limit is one too high',
      'if queue.admitted + weight > queue.limit then break end',
      'if queue.admitted + weight > queue.limit + 1 then break end',
    ],
    ['a newcomer overtakes', 'local fits = not was_wanted and', 'local fits ='],
    ['those behind a release are not admitted', '      advance(queue)\n', ''],
    ['no message is sent', 'if #queue.messages > 0 then shared.tell', 'if false then shared.tell'],
    ['a weight may grow', 'if lighter > 0 then', 'if lighter ~= 0 then'],
    ['a lighter claim makes no room', 'queue.admitted = queue.admitted - lighter', ''],
    ['the position is one too low', '- count_of(queue) - 2) / 2', '- count_of(queue) - 4) / 2'],
    [
      'the boundary is lost',
      "local boundary = count > 0 and entries[count].fence or '0'",
      "local boundary = '0'",
    ],
    [
      'claims admitted at the end of a long queue get no message',
      'if #messages > 0 then tools',
      'if false then tools',
    ],
  ])('would notice of a sorted set that %s', async (_, find, replace) => {
    const plant = changed(find, replace)
    const change = (script: string): string => plant(LOW_LIMITS(script))
    await expect(compare(client, { ...FEW, steps: 20_000, seed: 2, change })).rejects.toThrow()
  })
})
