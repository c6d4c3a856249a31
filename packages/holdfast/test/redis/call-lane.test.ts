import { describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { CallLane } from '../../src/backends/redis/call-lane.js'

interface Item {
  readonly name: string
  readonly isUrgent: boolean
}

/** A lane whose calls end when the test says so. */
class HeldCalls {
  /** The calls that were sent, each as the names in it. */
  readonly sent: string[][] = []
  readonly #ends: (() => void)[] = []
  readonly lane = new CallLane<Item>(2, (items) => {
    this.sent.push(items.map(({ name }) => name))
    return new Promise((resolve) => this.#ends.push(resolve))
  })

  async end(count: number): Promise<void> {
    for (const end of this.#ends.splice(0, count)) end()
    await Promise.resolve()
  }

  /** Sends so many questions that no more calls may be under way. */
  fill(): void {
    this.lane.add(questions(64))
    expect(this.sent).toHaveLength(32)
    this.sent.length = 0
  }
}

function questions(count: number, prefix = 'q'): Item[] {
  return Array.from({ length: count }, (_, index) => ({ name: `${prefix}${index}`, isUrgent: false }))
}

describe('the calls to one server', () => {
  it('are sent in order, several steps in each', () => {
    const calls = new HeldCalls()
    calls.lane.add([...questions(2), { name: 'release', isUrgent: true }])
    expect(calls.sent).toEqual([['q0', 'q1'], ['release']])
  })

  it('are bounded, and a release or renewal does not wait behind questions', async () => {
    const calls = new HeldCalls()
    calls.fill()
    calls.lane.add([...questions(3, 'late'), { name: 'release', isUrgent: true }])
    calls.lane.add([{ name: 'renewal', isUrgent: true }])
    expect(calls.sent).toEqual([['release'], ['renewal']])
    calls.sent.length = 0
    await calls.end(2)
    expect(calls.sent).toEqual([])
    await calls.end(1)
    expect(calls.sent).toEqual([['late0', 'late1']])
    await calls.end(1)
    expect(calls.sent).toEqual([['late0', 'late1'], ['late2']])
  })

  it('no longer count when they are not answered for long', async () => {
    const calls = new HeldCalls()
    calls.fill()
    calls.lane.add(questions(1, 'late'))
    await until('it is sent', () => calls.sent.length === 1)
    expect(calls.sent).toEqual([['late0']])
  })

  it('are for one step each after the server could not take several', () => {
    const calls = new HeldCalls()
    calls.lane.addAlone(questions(2, 'torn'))
    calls.lane.add(questions(2))
    expect(calls.sent).toEqual([['torn0'], ['torn1'], ['q0'], ['q1']])
  })
})
