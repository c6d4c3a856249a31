// @module-tag limits
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { BYTES_PER_REQUEST, FairTurns } from '../../src/security/fair-turns.js'

class Served {
  readonly names: string[] = []
  nowMs = 0
  readonly turns = new FairTurns(() => this.nowMs)

  enter(caller: string, count = 1): void {
    for (let index = 0; index < count; index += 1) this.turns.enter(caller, () => this.names.push(caller))
  }

  count(caller: string): number {
    return this.names.filter((name) => name === caller).length
  }
}

describe('requests of several callers', () => {
  it('are served at once while one caller is present', () => {
    const served = new Served()
    served.enter('a', 100)
    expect(served.count('a')).toBe(100)
  })

  it('are served in turn, so that a caller with one request does not wait for all of another caller', async () => {
    const served = new Served()
    served.enter('b')
    served.enter('a', 100)
    expect(served.count('a')).toBe(1)
    await nextTurn()
    await nextTurn()
    const before = served.count('a')
    served.enter('b')
    expect(served.count('b')).toBe(2)
    expect(served.count('a')).toBe(before)
    while (served.count('a') < 100) await nextTurn()
  })

  it('count a large answer as further requests', async () => {
    const served = new Served()
    served.enter('b')
    served.enter('a')
    served.turns.charge('a', 10 * BYTES_PER_REQUEST)
    served.enter('a')
    for (let turn = 0; turn < 5; turn += 1) await nextTurn()
    expect(served.count('a')).toBe(1)
    while (served.count('a') < 2) await nextTurn()
  })

  it('do not wait any more when the other caller has been away for two seconds', () => {
    const served = new Served()
    served.enter('b')
    served.enter('a', 10)
    expect(served.count('a')).toBe(1)
    served.nowMs = 1_500
    served.enter('a', 10)
    expect(served.count('a')).toBe(1)
    served.nowMs = 3_600
    served.enter('a', 10)
    expect(served.count('a')).toBe(11)
  })

  it('are refused when too many of one caller wait', () => {
    const served = new Served()
    served.enter('b')
    served.enter('a', 25_001)
    expect(() => served.enter('a')).toThrow('Too many requests wait already.')
  })
})
