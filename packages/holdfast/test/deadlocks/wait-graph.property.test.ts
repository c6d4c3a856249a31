/** The wait graph against plain definitions, on small random lines. */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ClaimView, ResourceView } from '../../src/core/backend.js'
import { readFlowMark } from '../../src/core/flow-text.js'
import { type Deadlock, findDeadlocks, findKnots } from '../../src/core/wait-graph.js'
import { type ClaimSketch, claim } from './claim-views.js'

interface Place {
  readonly view: ResourceView
  readonly claim: ClaimView
  readonly index: number
}

const placesOf = (views: readonly ResourceView[]): Place[] =>
  views.flatMap((view) => view.waiters.map((one, index) => ({ view, claim: one, index })))

/** Whether the hold cannot be given back before the wait is over, as the mark of both says. */
function holdsUp(waiter: Place, holder: ClaimView, all: readonly Place[], certain: boolean): boolean {
  const of = readFlowMark(holder.owner.client)
  const by = readFlowMark(waiter.claim.owner.client)
  if (of.path !== null && by.path !== null) {
    const alone = all.filter((each) => readFlowMark(each.claim.owner.client).path === by.path).length === 1
    return of.path === by.path ? alone || !certain : by.path.startsWith(`${of.path}-`)
  }
  const isSame = holder.owner.pid === waiter.claim.owner.pid && of.client === by.client
  return !certain && isSame
}

/** By definition: set against set, until nothing changes. */
function stuckByDefinition(views: readonly ResourceView[], certain: boolean): Set<Place> {
  const all = placesOf(views)
  const stuck = new Set(all)
  for (let size = -1; size !== stuck.size; ) {
    size = stuck.size
    for (const place of stuck) {
      const { holders, waiters, shape } = place.view
      const stay = [
        ...holders.filter((holder) => [...stuck].some((waiter) => holdsUp(waiter, holder, all, certain))),
        ...waiters.slice(0, place.index).filter((ahead) => [...stuck].some((each) => each.claim === ahead)),
      ]
      const weight = stay.reduce((sum, each) => sum + each.weight, place.claim.weight)
      if (weight <= (shape?.limit ?? 1)) stuck.delete(place)
    }
  }
  return stuck
}

/** Every edge there is, without the short cuts. */
function edgesByDefinition(
  stuck: ReadonlySet<Place>,
  all: readonly Place[],
  certain: boolean,
): Map<Place, Place[]> {
  return new Map(
    [...stuck].map((from) => {
      const heldUp = from.view.holders.filter((h) => [...stuck].some((w) => holdsUp(w, h, all, certain)))
      const sum = heldUp.reduce((total, each) => total + each.weight, from.claim.weight)
      const byHolders = sum > (from.view.shape?.limit ?? 1)
      const first = [...stuck]
        .filter((each) => each.view === from.view)
        .toSorted((a, b) => a.index - b.index)[0]
      const to = byHolders
        ? [...stuck].filter((waiter) => heldUp.some((holder) => holdsUp(waiter, holder, all, certain)))
        : [first as Place]
      return [from, to]
    }),
  )
}

function shortestThroughAny(edges: ReadonlyMap<Place, readonly Place[]>, starts: readonly Place[]): number {
  let best = Number.POSITIVE_INFINITY
  for (const start of starts) {
    let ring = new Set([start])
    for (let length = 1; length <= edges.size; length += 1) {
      ring = new Set([...ring].flatMap((each) => edges.get(each) ?? []))
      if (ring.has(start)) best = Math.min(best, length)
    }
  }
  return best
}

const sketch: fc.Arbitrary<ClaimSketch> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom('1', '2', '3', '4', '1-1', '1-2', '2-1').map((flow) => ({ flow })),
  },
  { weight: 1, arbitrary: fc.constantFrom(1, 2, 3).map((pid) => ({ pid })) },
)

/** A line as the rule makes it: whoever fits from the front holds, and all others wait. */
const lineOf = (resource: string): fc.Arbitrary<ResourceView> =>
  fc
    .record({
      limit: fc.constantFrom(1, 1, 2, 3),
      claims: fc.array(fc.record({ who: sketch, weight: fc.nat({ max: 2 }) }), {
        minLength: 1,
        maxLength: 5,
      }),
    })
    .map(({ limit, claims }) => {
      const made = claims.map(({ who, weight }) => claim({ ...who, weight: Math.min(weight + 1, limit) }))
      let sum = 0
      const admitted = made.findIndex((each) => {
        sum += each.weight
        return sum > limit
      })
      const cut = admitted < 0 ? made.length : admitted
      const shape = { kind: 'semaphore', limit } as const
      return { resource, shape, holders: made.slice(0, cut), waiters: made.slice(cut) }
    })

const lines = fc.tuple(lineOf('a'), lineOf('b'), lineOf('c'), lineOf('d'))

function stepsAreReal(deadlock: Deadlock, views: readonly ResourceView[]): void {
  const all = placesOf(views)
  const stuck = stuckByDefinition(views, deadlock.certain)
  for (const [index, { waiter, waitsFor, heldBy }] of deadlock.cycle.entries()) {
    const next = deadlock.cycle[(index + 1) % deadlock.cycle.length]?.waiter as ClaimView
    const place = all.find((each) => each.claim === waiter) as Place
    expect(place.view.resource).toBe(waitsFor)
    expect([...stuck].some((each) => each.claim === waiter)).toBe(true)
    if (heldBy === next) expect(place.view.waiters.indexOf(heldBy)).toBeLessThan(place.index)
    else {
      expect(place.view.holders).toContain(heldBy)
      const nextPlace = all.find((each) => each.claim === next) as Place
      expect(holdsUp(nextPlace, heldBy, all, deadlock.certain)).toBe(true)
    }
  }
}

describe('the wait graph', () => {
  it('finds a certain deadlock where, by definition, there is one, and a shortest one', () => {
    fc.assert(
      fc.property(lines, (views) => {
        const found = findKnots(views)
        const stuck = stuckByDefinition(views, true)
        expect(found.length > 0).toBe(stuck.size > 0)
        const edges = edgesByDefinition(stuck, placesOf(views), true)
        for (const knot of found) {
          stepsAreReal(knot, views)
          const members = [...stuck].filter((place) => knot.members.has(place.claim))
          expect(knot.cycle.length).toBe(shortestThroughAny(edges, members))
        }
      }),
      { numRuns: 600 },
    )
  })

  it('finds a possible one where there is one, tells of none twice, and depends on no order', () => {
    fc.assert(
      fc.property(lines, fc.nat(), (views, seed) => {
        const found = findDeadlocks(views)
        expect(found.length > 0).toBe(stuckByDefinition(views, false).size > 0)
        for (const deadlock of found) stepsAreReal(deadlock, views)
        const told = found.flatMap(({ cycle }) => cycle.map(({ waiter }) => waiter))
        expect(new Set(told).size).toBe(told.length)
        const turned = views.map((_, index) => views[(index + seed) % views.length] as ResourceView)
        expect(findDeadlocks(turned)).toEqual(found)
      }),
      { numRuns: 600 },
    )
  })

  it('is gone once any one of its claims is', () => {
    fc.assert(
      fc.property(lines, fc.nat(), (views, pick) => {
        const [knot] = findKnots(views)
        if (knot === undefined) return
        const refs = knot.evidence.map((each) => each.split(' ')[1])
        const gone = refs[pick % refs.length]
        const left = views.map((view) => {
          const stay = [...view.holders, ...view.waiters].filter(({ ref }) => ref !== gone)
          return {
            ...view,
            holders: stay.slice(0, view.holders.length),
            waiters: stay.slice(view.holders.length),
          }
        })
        const again = findKnots(left).find((each) => each.evidence.join() === knot.evidence.join())
        expect(again).toBeUndefined()
      }),
      { numRuns: 400 },
    )
  })
})
