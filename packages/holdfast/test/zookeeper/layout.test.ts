import { describe, expect, it } from 'vitest'
import {
  EXACT_PATHS,
  inOrder,
  mark,
  nodeName,
  partsBelow,
  readNode,
  refOfNode,
} from '../../src/backends/zookeeper/layout.js'
import type { Claim } from '../../src/core/backend.js'
import { InvalidInputError } from '../../src/core/errors.js'
import { LIMIT_MAX } from '../../src/core/line.js'
import { refOf } from '../../src/core/names.js'

const owner = { host: 'h', pid: 1, client: 'c' }

function claim(kind: Claim['shape']['kind'], limit: number, weight: number): Claim {
  return { id: 'secret', resource: 'r', shape: { kind, limit }, weight, ttlMs: 1_000, owner, note: null }
}

describe('the names of nodes', () => {
  it.each([
    [claim('mutex', 1, 1), /^_c_[0-9a-f-]{36}-lock-$/],
    [claim('read-write', LIMIT_MAX, 1), /^_c_[0-9a-f-]{36}-__READ__$/],
    [claim('read-write', LIMIT_MAX, LIMIT_MAX), /^_c_[0-9a-f-]{36}-__WRIT__$/],
    [claim('semaphore', 5, 2), /^_c_[0-9a-f-]{36}-permit-5-2-$/],
  ])('say what is claimed, and can be read back', (each, pattern) => {
    const name = nodeName(each)
    expect(name).toMatch(pattern)
    expect(name).not.toContain(each.id)
    const node = readNode(`${name}0000000007`)
    expect(node).toMatchObject({ shape: each.shape, weight: each.weight, sequence: 7 })
    expect(refOfNode(name)).toBe(refOf(each.id))
    expect(name.startsWith(mark(each))).toBe(true)
  })

  it.each(['lock', 'orders', 'leases', '_c_x-lock-', 'lock-12', ''])('do not include %o', (name) => {
    expect(readNode(name)).toBeNull()
  })

  it('of kazoo are known', () => {
    expect(readNode('0123456789abcdef__lock__0000000003')).toMatchObject({
      shape: { kind: 'mutex' },
      sequence: 3,
    })
  })

  it('are in order of their numbers, until the counter of the folder overflows', () => {
    const nodes = ['lock-0000000009', 'lock-0000000010', 'lock-0000000002'].flatMap(
      (name) => readNode(name) ?? [],
    )
    expect(inOrder(nodes)?.map(({ sequence }) => sequence)).toEqual([2, 9, 10])
    const over = ['lock-2147483647', 'lock--2147483648'].flatMap((name) => readNode(name) ?? [])
    expect(over.map(({ sequence }) => sequence)).toEqual([2_147_483_647, -2_147_483_648])
    expect(inOrder(over)).toBeNull()
  })
})

describe('paths', () => {
  it('are one part below the base, whatever the name is', () => {
    const layout = partsBelow(['apps', 'locks'])
    const pathOf = (name: string): string => layout.pathOf(name)
    expect(pathOf('orders')).toBe('/apps/locks/orders')
    expect(pathOf('../x')).toBe('/apps/locks/..%2Fx')
    expect(pathOf('..')).toBe('/apps/locks/%2E%2E')
    expect(pathOf('a/b')).not.toBe(pathOf('a%2Fb'))
  })

  it.each(['/apps/orders', '/a'])('may be given whole: %o', (path) => {
    expect(EXACT_PATHS.pathOf(path)).toBe(path)
  })

  it.each(['orders', '/', '/a/', '/a//b', '/a/../b', '/./a', '/a\ufff0'])(
    'that are none are refused: %o',
    (path) => {
      expect(() => EXACT_PATHS.pathOf(path)).toThrow(InvalidInputError)
    },
  )
})
