/** Real processes that wait for each other, on real stores. */

import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { connect } from '../../src/connect/connect.js'
import { findDeadlocks } from '../../src/core/wait-graph.js'
import { LineChild } from './child-lines.js'

const stores = await Promise.all(
  (['sqlite', 'redis'] as const).map(async (name) => ({ name, outcome: await sharedStoreFor(name) })),
)
const children: LineChild[] = []

function start(script: string, ...args: readonly string[]): LineChild {
  const child = new LineChild(script, args)
  children.push(child)
  return child
}

describe.each(stores)('$name', ({ outcome }) => {
  if (outcome.kind !== 'ready') {
    it.skip(`all of it (not run: ${outcome.reason})`, () => {})
    return
  }
  const { url } = outcome.store
  afterAll(async () => {
    await Promise.all(children.splice(0).map((child) => child.stop()))
    await outcome.store.dispose()
  })

  /** Lets each take its first name, then each ask for its second, the next well after the one before. */
  async function close(circle: readonly LineChild[]): Promise<void> {
    for (const child of circle) {
      await child.kinds('ready')
      child.go()
      await child.kinds('asks', 'holds')
    }
    const observer = await connect(url)
    for (const child of circle) {
      child.go()
      const { name = '' } = await child.kinds('asks')
      if (child === circle.at(-1)) break
      await until(`it waits for ${name}`, async () => (await observer.inspect(name)).waiters.length === 1)
      // Ages that are close to each other leave it open who is the youngest.
      await sleep(1_500)
    }
    await observer.close()
  }

  it.concurrent('gives up the youngest wait of two processes, names the circle, and the other goes on', async () => {
    const one = start('nester.mjs', url, 'detect', 'two:a', 'two:b')
    const two = start('nester.mjs', url, 'detect', 'two:b', 'two:a')
    await close([one, two])
    const failed = await two.kinds('failed')
    expect(failed).toMatchObject({ code: 'DEADLOCK', cycle: ['two:a', 'two:b'] })
    expect(failed.message).toContain(
      `process ${two.pid} on ${hostname()} waits for "two:a", held by process ${one.pid}`,
    )
    await one.kinds('holds', 'done')
    await Promise.all([one.ended, two.ended])
    expect(one.errors + two.errors).toBe('')
  })

  it.concurrent('does so for a circle of three', async () => {
    const names = ['three:a', 'three:b', 'three:c']
    const circle = names.map((name, index) =>
      start('nester.mjs', url, 'detect', name, names[(index + 1) % 3] as string),
    )
    await close(circle)
    const [one, two, three] = circle as [LineChild, LineChild, LineChild]
    expect((await three.kinds('failed')).cycle?.toSorted()).toEqual(names)
    await two.kinds('holds', 'done')
    await one.kinds('holds', 'done')
  })

  it.concurrent('only shows it, where nobody detects', async () => {
    const one = start('nester.mjs', url, 'show', 'shown:a', 'shown:b')
    const two = start('nester.mjs', url, 'show', 'shown:b', 'shown:a')
    await close([one, two])
    const locks = await connect(url)
    const look = async (): Promise<boolean[]> => {
      const views = []
      for await (const view of locks.list('shown:')) views.push(view)
      return findDeadlocks(views).map(({ certain }) => certain)
    }
    await until('the circle is seen', async () => (await look()).length > 0)
    expect(await look()).toEqual([true])
    await locks.close()
  })

  it.concurrent('raises no false alarm among independent callers of two processes with crossing names', async () => {
    const rounds = 12
    const names = ['crowd:a', 'crowd:b']
    const crowds = [1, 2].map(() => start('crowd.mjs', url, String(rounds), ...names))
    const taken = await Promise.all(crowds.map((child) => child.next()))
    expect(taken).toEqual(crowds.map(() => rounds * names.length * 4))
    expect(crowds.map(({ errors }) => errors)).toEqual(['', ''])
  })
})
