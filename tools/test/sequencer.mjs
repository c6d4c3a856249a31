// @ts-check
// The order of the test files. Files that mostly wait, for leases to end and servers to recover, take longest. They start
// first, in turn with files that compute, so that the processors are busy from the beginning to the end.
import { BaseSequencer } from 'vitest/node'

/** Parts of the paths of files that mostly wait, the longest first. */
const waiting = [
  '/conformance/postgres',
  '/redis/failover',
  '/conformance/',
  '/redis/cluster',
  '-processes.test',
  '/idempotency/',
  '/consul/',
  '/zookeeper/',
  '/redis/faults',
  '/etcd/',
  '/memcached/faults',
  '/redis/connection-faults',
  '/records/',
  '/torture/test/stage/',
  'servers-zookeeper',
]

/** @param {string} path */
function rankOf(path) {
  const found = waiting.findIndex((part) => path.includes(part))
  return found === -1 ? waiting.length : found
}

/**
 * Takes from both lists in turn, and what is left of the longer one at the end.
 * @template T
 * @param {readonly T[]} one
 * @param {readonly T[]} other
 * @returns {T[]}
 */
export function inTurn(one, other) {
  const length = Math.max(one.length, other.length)
  return Array.from({ length }, (_, index) => [one[index], other[index]])
    .flat()
    .filter((each) => each !== undefined)
}

/** Starts the files that wait longest first. */
export class LongestFirst extends BaseSequencer {
  /**
   * @override
   * @param {import('vitest/node').TestSpecification[]} files
   */
  async sort(files) {
    const sorted = await super.sort(files)
    const waits = sorted.filter(({ moduleId }) => rankOf(moduleId) < waiting.length)
    const computes = sorted.filter(({ moduleId }) => rankOf(moduleId) === waiting.length)
    return inTurn(
      waits.toSorted((a, b) => rankOf(a.moduleId) - rankOf(b.moduleId)),
      computes,
    )
  }
}
