// @module-tag exclusion
import type { RenewRequest } from 'holdfast/backend'
import { SeededRandom, VirtualTime } from 'holdfast/testing'
import { describe, expect, it } from 'vitest'
import { Excuses } from '../../src/sim/excuses.js'
import { Losses, type LostHold, usableMs } from '../../src/sim/losses.js'
import { SimProcess } from '../../src/sim/process.js'
import { WakeUps, wakeUpMs } from '../../src/sim/wake-ups.js'

const TTL_MS = 3_000
const REQUEST_MS = 750

function scene() {
  const time = new VirtualTime()
  const process = new SimProcess('p1', time, new SeededRandom(1), 1)
  const excuses = new Excuses(time)
  const losses = new Losses(time, excuses, REQUEST_MS)
  const startMs = process.monotonicMs()
  const standing = {
    claim: { id: 'claim', ttlMs: TTL_MS },
    fence: 1n,
    lease: { sentAt: startMs, leaseMs: TTL_MS },
    since: startMs,
    renews: true,
    limitAt: Number.POSITIVE_INFINITY,
  }
  const hold: LostHold = { process, resource: 'a', standing }
  const claim = { ...standing.claim, resource: 'a' } as RenewRequest['claim']
  losses.begin(hold, startMs + usableMs(TTL_MS))
  const send = (): readonly RenewRequest[] => {
    const requests = [{ claim, fence: 1n, leaseMs: TTL_MS }]
    losses.renewalSent(process, requests)
    return requests
  }
  return { time, process, losses, hold, send }
}

describe('the check of lost holds', () => {
  it('reports a hold that is lost before the end of its lease', async () => {
    const { time, losses, hold } = scene()
    await time.advance(1_500)
    losses.lost(hold, 'evicted')
    expect(() => losses.afterStep()).toThrow('unexplained-loss: p1 lost a as evicted with 1168.0 ms')
  })

  it('counts an answered renewal', async () => {
    const { time, losses, hold, process, send } = scene()
    await time.advance(1_000)
    losses.renewalAnswered(process, send(), ['renewed'])
    await time.advance(usableMs(TTL_MS) - 1_000)
    losses.lost(hold, 'expired')
    expect(() => losses.afterStep()).toThrow('with 1000.0 ms of its lease left')
  })

  it('accepts the end of a lease if each renewal left in time and none was answered', async () => {
    const { time, losses, hold, send } = scene()
    await time.advance(1_000)
    send()
    await time.advance(REQUEST_MS + 180)
    send()
    await time.advance(usableMs(TTL_MS) - 1_930)
    losses.lost(hold, 'expired')
    expect(() => losses.afterStep()).not.toThrow()
  })

  it('reports the end of a lease if one lost renewal was not repeated', async () => {
    const { time, losses, hold, send } = scene()
    await time.advance(1_000)
    send()
    await time.advance(usableMs(TTL_MS) - 1_000)
    losses.lost(hold, 'expired')
    expect(() => losses.afterStep()).toThrow('a renewal was')
  })

  it('does not count the time in which the process stands still', async () => {
    const { time, losses, hold, process } = scene()
    losses.processHalts(process, false)
    await time.advance(TTL_MS)
    losses.processResumes(process)
    losses.lost(hold, 'expired')
    expect(() => losses.afterStep()).not.toThrow()
  })

  it('reports a hold that goes on after the store has said that it is gone', () => {
    const { losses, process, send } = scene()
    losses.renewalAnswered(process, send(), ['lost'])
    expect(() => losses.afterStep()).toThrow('unnoticed-loss')
  })
})

describe('the check of wake-ups', () => {
  it('reports a waiter that gets its lock late, unless there was trouble', async () => {
    const limitMs = wakeUpMs('push', 1)
    const time = new VirtualTime()
    const wakeUps = new WakeUps(time)
    await time.advance(10_000)
    wakeUps.admitted('claim')
    await time.advance(limitMs)
    expect(() => wakeUps.begun('claim', 0, limitMs)).not.toThrow()
    wakeUps.admitted('claim')
    await time.advance(limitMs + 1)
    expect(() => wakeUps.begun('claim', 0, limitMs)).toThrow('late-wake-up')
    wakeUps.admitted('claim')
    wakeUps.trouble()
    await time.advance(limitMs + 1)
    expect(() => wakeUps.begun('claim', 0, limitMs)).not.toThrow()
  })
})
