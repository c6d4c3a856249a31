import { env } from 'node:process'
import { afterEach, describe, expect, it } from 'vitest'
import { memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import {
  flowMarkWithin,
  isFlowPath,
  pathAndOuter,
  pathInside,
  randomPart,
  readFlowMark,
  writeFlowMark,
} from '../../src/core/flow-text.js'

const ROOT = '00112233445566ff'

/** MySQL and MariaDB keep 64 characters, and of ASCII only. */
const CLIENT_LENGTH_MAX = 64

describe('the mark of a flow', () => {
  it('is read as it was written, and fits every store however deep it is', () => {
    let path: string | null = ROOT
    let deepest = 0
    for (; path !== null; path = pathInside(path, 'zz')) {
      const text = writeFlowMark('0a1b2c', path, true)
      expect(text.length).toBeLessThanOrEqual(CLIENT_LENGTH_MAX)
      expect(text).toMatch(/^[\x20-\x7e]+$/)
      expect(readFlowMark(text)).toEqual({ client: '0a1b2c', path, detects: true })
      expect(isFlowPath(path)).toBe(true)
      deepest += 1
    }
    expect(deepest).toBeGreaterThan(8)
    expect(readFlowMark(writeFlowMark('0a1b2c', ROOT, false)).detects).toBe(false)
  })

  it('of one scope is none of another, and keeps what is inside of what', () => {
    const [outer, inner] = [`c~d${ROOT}`, `c~d${ROOT}-1-2`]
    const [mine, within, theirs] = [
      flowMarkWithin(outer, 'one'),
      flowMarkWithin(inner, 'one'),
      flowMarkWithin(outer, 'two'),
    ]
    expect(within).toBe(`${mine}-1-2`)
    expect(mine).toMatch(/^c~d[0-9a-f]{16}$/)
    expect(new Set([outer, mine, theirs]).size).toBe(3)
    expect(flowMarkWithin('c~x', 'one')).toBe('c~x')
  })

  it.each(['', 'http', 'a~b', `a~d${ROOT.slice(1)}`, `a~d${ROOT}-`, `a~d${ROOT}-A`, `a~x${ROOT}`, `${ROOT}`])(
    'is not seen in %o',
    (text) => {
      expect(readFlowMark(text)).toEqual({ client: text, path: null, detects: false })
    },
  )

  it('has as much chance in a part as a part has room for, whatever the text of an id is', () => {
    const parts = Array.from({ length: 200 }, (_, index) => randomPart(`id ${index} is no number`))
    for (const part of parts) expect(isFlowPath(`${ROOT}-${part}`)).toBe(true)
    expect(new Set(parts.map((part) => part.length))).toEqual(new Set([8]))
    expect(new Set(parts).size).toBe(parts.length)
    expect([...new Set(parts.join(''))].toSorted().join('')).toBe('0123456789abcdefghijklmnopqrstuvwxyz')
    // Processes inside each other, before there is no more room.
    let path: string | null = ROOT
    let depth = 0
    for (; path !== null; path = pathInside(path, randomPart(path))) depth += 1
    expect(depth).toBe(5)
  })

  it('knows what it runs inside of', () => {
    expect(pathAndOuter(`${ROOT}-1-2`)).toEqual([`${ROOT}-1-2`, `${ROOT}-1`, ROOT])
    expect(isFlowPath(`${ROOT}; rm -rf`)).toBe(false)
    expect(isFlowPath(`${ROOT}${'-1'.repeat(40)}`)).toBe(false)
  })
})

describe('what claims carry', () => {
  const clients: Locks[] = []

  afterEach(async () => {
    delete env['HOLDFAST_FLOW']
    await Promise.all(clients.splice(0).map((locks) => locks.close()))
  })

  async function client(deadlocks: 'off' | 'show' | 'detect'): Promise<Locks> {
    const locks = await createLocks(memoryBackend(), { deadlocks })
    clients.push(locks)
    return locks
  }

  async function pathOf(locks: Locks, name: string): Promise<string | null> {
    const [holder] = (await locks.inspect(name)).holders
    return readFlowMark(holder?.owner.client ?? '').path
  }

  it('is nothing where nobody asked for it', async () => {
    const locks = await client('off')
    await locks.flow(async (flow) => {
      await using _a = await locks.mutex('a').acquire()
      expect([flow, await pathOf(locks, 'a')]).toEqual(['', null])
    })
  })

  it('is a flow of its own for each, one inside the other under run(), and the same in a flow', async () => {
    const locks = await client('show')
    await locks.mutex('a').run(async () => {
      const outer = (await pathOf(locks, 'a')) as string
      await Promise.all(
        ['b', 'c'].map((name) => locks.mutex(name).run(async () => await locks.mutex(`${name}2`).acquire())),
      )
      expect(await pathOf(locks, 'b2')).toBe(`${outer}-1-1`)
      expect(await pathOf(locks, 'c2')).toBe(`${outer}-2-1`)
    })
    await locks.flow(async (flow) => {
      await locks.mutex('d').acquire()
      await locks.all(['e', 'f']).acquire()
      await locks.semaphore('g', 2).run(async () => await locks.mutex('h').acquire())
      const paths = await Promise.all(['d', 'e', 'f'].map((name) => pathOf(locks, name)))
      expect(paths).toEqual([flow, flow, flow])
      // What is taken inside run() is beside whatever else is taken there, also in a flow.
      expect(await pathOf(locks, 'h')).toBe(`${flow}-1`)
      locks.flow((inner) => expect(inner).toBe(`${flow}-2`))
    })
    await locks.mutex('x').acquire()
    await locks.mutex('y').acquire()
    expect(await pathOf(locks, 'x')).not.toBe(await pathOf(locks, 'y'))
  })

  it('is never the same twice inside one hold, however it is entered', async () => {
    const locks = await client('show')
    const mutex = locks.mutex('a')
    await locks.flow(async (flow) => {
      const hold = await mutex.acquire()
      await locks.mutex('b').run(async () => await locks.mutex('c').acquire())
      await mutex.within(hold, async () => await locks.mutex('d').acquire())
      await mutex.within(hold, async () => await locks.mutex('e').acquire())
      await locks.flow(async () => await locks.mutex('f').acquire())
      const paths = await Promise.all(['a', 'c', 'd', 'e', 'f'].map((name) => pathOf(locks, name)))
      expect(paths).toEqual([flow, `${flow}-1`, `${flow}-2`, `${flow}-3`, `${flow}-4`])
    })
  })

  it('is nothing where a claim stays for a minimum after it is given back', async () => {
    const locks = await client('detect')
    await locks.flow(async () => {
      await locks.mutex('a').acquire({ minHoldMs: 1 })
      await locks.mutex('b', { minHoldMs: 0 }).acquire()
    })
    expect(await pathOf(locks, 'a')).toBeNull()
    expect(await pathOf(locks, 'b')).not.toBeNull()
  })

  it('begins in the flow that the process was started in, unless that is no flow', async () => {
    env['HOLDFAST_FLOW'] = ROOT
    const inside = await client('detect')
    await inside.mutex('a').acquire()
    expect(await pathOf(inside, 'a')).toMatch(new RegExp(`^${ROOT}-[0-9a-z]{8}$`))
    env['HOLDFAST_FLOW'] = '../../etc/passwd'
    const alone = await client('detect')
    await alone.mutex('a').acquire()
    expect(await pathOf(alone, 'a')).toMatch(/^[0-9a-f]{16}$/)
  })

  it('is nothing where it is too deep inside, and the lock works all the same', async () => {
    const locks = await client('detect')
    let marked = 0
    const enter = async (depth: number): Promise<void> => {
      if (depth === 0) return
      await locks.mutex(`deep${depth}`).run(async () => {
        if ((await pathOf(locks, `deep${depth}`)) !== null) marked += 1
        await enter(depth - 1)
      })
    }
    await enter(30)
    expect(marked).toBeGreaterThan(10)
    expect(marked).toBeLessThan(30)
  })
})
