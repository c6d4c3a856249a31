import type { Hold, Lockable } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { nowMicros } from '../../src/history/recorder.js'
import { Caller, Tally } from '../../src/torture/caller.js'
import type { Diary } from '../../src/torture/diary.js'
import { RecordedLock } from '../../src/torture/recorded-lock.js'

interface Noted {
  readonly f: string
  readonly type: string
  readonly until: number | undefined
}

/** A lock that is granted, and whose lease is shortened before its caller runs. */
function shortenedLock(onGrant: () => void): Lockable<Hold> {
  const hold = { signal: new AbortController().signal, deadline: performance.now() - 1_000 }
  const acquire = (): Promise<Hold> => {
    onGrant()
    return Promise.resolve(hold as Hold)
  }
  return { name: 'a', acquire } as unknown as Lockable<Hold>
}

function recorder(): { readonly caller: Caller; readonly tally: Tally; readonly noted: Noted[] } {
  const noted: Noted[] = []
  const note = (_p: string, f: string, type: string, _k: string, v: { until?: number }): void =>
    void noted.push({ f, type, until: v.until })
  const tally = new Tally()
  return { caller: new Caller({ process: 'w1', note } as unknown as Diary, tally, 1), tally, noted }
}

const untilOf = (noted: readonly Noted[]): number =>
  noted.find(({ f, type }) => f === 'acquire' && type === 'ok')?.until ?? Number.NaN

describe('the record of a lock that is granted', () => {
  test('has no deadline in the past if the library noticed a sleep between the grant and its caller', async () => {
    const { caller, tally, noted } = recorder()
    const asked = nowMicros()
    await new RecordedLock(
      shortenedLock(() => tally.sleepNoticed()),
      caller,
      'a',
      false,
    ).acquire()
    expect(untilOf(noted)).toBeGreaterThanOrEqual(asked)
  })

  test('shows a lock that was granted too late, also if the library noticed a sleep earlier', async () => {
    const { caller, tally, noted } = recorder()
    tally.sleepNoticed()
    await new Promise((resolve) => setTimeout(resolve, 5))
    const asked = nowMicros()
    await new RecordedLock(
      shortenedLock(() => {}),
      caller,
      'a',
      false,
    ).acquire()
    expect(untilOf(noted)).toBeLessThan(asked)
  })

  test('tells how long it was believed to last, also if the library noticed a sleep twice before its loss', async () => {
    const { caller, tally, noted } = recorder()
    const lost = new AbortController()
    const hold = { signal: lost.signal, deadline: performance.now() + 1_000 }
    const lock = { name: 'a', acquire: () => Promise.resolve(hold) } as unknown as Lockable<Hold>
    const { until } = await new RecordedLock(lock, caller, 'a', false).acquire()
    tally.sleepNoticed()
    hold.deadline -= 2_000
    tally.sleepNoticed()
    lost.abort({ reason: 'expired' })
    expect(noted.find(({ f }) => f === 'lost')?.until).toBe(until)
  })
})
