/**
 * Finds claims that wait for each other in a circle, from what the store shows of all resources.
 *
 * Who waits for what. A waiting claim of weight k is *stuck* if it cannot be admitted whatever all others do that are not
 * stuck: every holder that can still leave does, every waiter ahead that can still be served is served and leaves. So a
 * mutex waits for its one holder, a writer for all holders, and a claim of k permits only for as many of them as it needs:
 * of a semaphore one live holder is enough to get things moving. A stuck waiter ahead holds up all behind it, because
 * nobody overtakes. A hold is *held up* while a stuck claim of the same flow waits inside it (see flow-text.ts).
 *
 * The stuck claims are the greatest set with these properties: at first all are taken to be, and then whoever is not, is
 * taken out, until nothing changes. Each of those that are left waits for another of them, so there is a circle.
 *
 * Where a claim does not say to which flow it belongs, all that one client of a process has is taken for one piece of
 * work. Many callers can share a client, so what is found in that way is only possible, and nobody acts upon it.
 */

import type { ClaimView, ResourceView } from './backend.js'
import { type FlowMark, pathAndOuter, readFlowMark, rootOf } from './flow-text.js'
import { strongComponents } from './strong-components.js'

export interface DeadlockStep {
  readonly waiter: ClaimView
  /** The name of the resource that it waits for. */
  readonly waitsFor: string
  /**
   * Whom it waits for: a holder that belongs to the same flow as the waiter of the next step; or the waiter of the next
   * step itself, if that stands before it in the same line and may not be overtaken.
   */
  readonly heldBy: ClaimView
}

/** Claims that wait for each other; the last step leads back to the first. */
export interface Deadlock {
  /** false: it may be that independent callers of one client only look like one. */
  readonly certain: boolean
  readonly cycle: readonly DeadlockStep[]
}

/** A deadlock, and every claim without which it would not be one. */
export interface Knot extends Deadlock {
  /** References of all claims that hold or wait in it, in order. While they all stay, it stays. */
  readonly evidence: readonly string[]
}

/** The deadlocks among the claims of one store, of which all resources must be given: certain ones first, then by name. */
export function findDeadlocks(views: Iterable<ResourceView>): Deadlock[] {
  const all = [...views]
  const certain = findKnots(all)
  const known = new Set(certain.flatMap(({ members }) => [...members]))
  const possible = new WaitGraph(all, false).knots(known)
  return [...certain, ...possible].map((knot) => ({ certain: knot.certain, cycle: knot.cycle }))
}

/** Only the certain ones, with what they rest on. */
export function findKnots(views: Iterable<ResourceView>): (Knot & { readonly members: Set<ClaimView> })[] {
  return new WaitGraph([...views], true).knots(new Set())
}

/** Whatever is held up by the same waiting claims. */
interface Party {
  readonly holds: Held[]
  /** In the end only those that are stuck. */
  waiting: Waiting[]
  /** How many of `waiting` are stuck. */
  stuck: number
}

interface Held {
  readonly claim: ClaimView
  readonly line: Line
  readonly parties: Party[]
  /** How many of its parties have a stuck claim. */
  heldUpBy: number
}

interface Waiting {
  readonly claim: ClaimView
  readonly line: Line
  readonly index: number
  readonly parties: Party[]
}

interface Line {
  readonly resource: string
  readonly limit: number
  readonly holders: Held[]
  readonly waiters: Waiting[]
  /** The weight of the holders that are held up. */
  heldUp: number
  /** How many waiters, from the front, are not stuck: behind a stuck one everybody is. */
  moving: number
}

type Node = Waiting | Line | Party

/** A cycle is searched for from each member of a component up to this many; beyond that it may not be the shortest. */
const STARTS_MAX = 16

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const isStuck = (waiting: Waiting): boolean => waiting.index >= waiting.line.moving

class WaitGraph {
  readonly #certain: boolean
  readonly #lines: Line[] = []
  readonly #parties = new Map<string, Party>()
  readonly #marks = new Map<string, FlowMark>()
  /** The beginnings of the paths of all holders: a waiter with another one holds nothing up. */
  readonly #roots = new Set<string>()

  constructor(views: readonly ResourceView[], certain: boolean) {
    this.#certain = certain
    // Where nobody waits, nobody is held up.
    const used = views.filter(({ waiters }) => waiters.length > 0)
    for (const view of used.toSorted((a, b) => byText(a.resource, b.resource))) this.#addLine(view)
    this.#join()
    this.#letMove()
  }

  /** `known`: claims whose deadlock was told of already. */
  knots(known: ReadonlySet<ClaimView>): (Knot & { readonly members: Set<ClaimView> })[] {
    const stuck = this.#lines.flatMap(({ waiters, moving }) => waiters.slice(moving))
    return strongComponents<Node>(stuck, successorsOf)
      .map((component) => component.filter((node): node is Waiting => 'index' in node))
      .filter((waiting) => waiting.every(({ claim }) => !known.has(claim)))
      .map((waiting) => ({ waiting: waiting.toSorted(byPlace), members: new Set(waiting) }))
      .toSorted((a, b) => byPlace(a.waiting[0] as Waiting, b.waiting[0] as Waiting))
      .map(({ waiting, members }) => ({
        certain: this.#certain,
        cycle: shortestCycle(waiting, members),
        evidence: evidenceOf(waiting),
        members: new Set(waiting.map(({ claim }) => claim)),
      }))
  }

  #addLine({ resource, shape, holders, waiters }: ResourceView): void {
    const line: Line = { resource, limit: shape?.limit ?? 1, holders: [], waiters: [], heldUp: 0, moving: 0 }
    for (const claim of holders) line.holders.push({ claim, line, parties: [], heldUpBy: 0 })
    for (const [index, claim] of waiters.entries()) line.waiters.push({ claim, line, index, parties: [] })
    this.#lines.push(line)
  }

  /** Brings together what is held up with what holds it up. */
  #join(): void {
    const crowded = this.#pathsOfSeveral()
    const holders = this.#lines.flatMap((line) => line.holders)
    // The holders come first: most of very many waiters hold nothing, and then they join no party and cost little.
    for (const held of holders) {
      for (const key of this.#keysOfHolder(held.claim)) {
        const party = this.#party(key)
        party.holds.push(held)
        held.parties.push(party)
      }
    }
    for (const waiting of this.#lines.flatMap(({ waiters }) => waiters)) {
      for (const key of this.#keysOfWaiter(waiting.claim, crowded)) {
        const party = this.#parties.get(key)
        if (party === undefined) continue
        party.waiting.push(waiting)
        party.stuck += 1
        waiting.parties.push(party)
      }
    }
    for (const held of holders) {
      held.heldUpBy = liveParties(held).length
      if (held.heldUpBy > 0) held.line.heldUp += held.claim.weight
    }
  }

  /** Who waits for two things at once does not do one after the other, whatever it says. */
  #pathsOfSeveral(): Set<string> {
    const seen = new Set<string>()
    const several = new Set<string>()
    for (const { claim } of this.#lines.flatMap(({ waiters }) => waiters)) {
      const { path } = this.#markOf(claim)
      if (path === null) continue
      if (seen.has(path)) several.add(path)
      seen.add(path)
    }
    return several
  }

  #keysOfWaiter(claim: ClaimView, crowded: ReadonlySet<string>): string[] {
    const { path, client } = this.#markOf(claim)
    const paths = path !== null && this.#roots.has(rootOf(path)) ? pathAndOuter(path) : []
    if (this.#certain) return paths.filter((each) => each !== path || !crowded.has(each))
    const keys = paths
    const owner = ownerKey(claim, client)
    if (owner !== null) keys.push(`any ${owner}`)
    if (owner !== null && path === null) keys.push(`unmarked ${owner}`)
    return keys
  }

  #keysOfHolder(claim: ClaimView): string[] {
    const { path, client } = this.#markOf(claim)
    const paths = path === null ? [] : [path]
    if (path !== null) this.#roots.add(rootOf(path))
    if (this.#certain) return paths
    const owner = ownerKey(claim, client)
    if (owner === null) return paths
    return [...paths, path === null ? `any ${owner}` : `unmarked ${owner}`]
  }

  #markOf({ owner }: ClaimView): FlowMark {
    const found = this.#marks.get(owner.client) ?? readFlowMark(owner.client)
    this.#marks.set(owner.client, found)
    return found
  }

  #party(key: string): Party {
    const found = this.#parties.get(key) ?? { holds: [], waiting: [], stuck: 0 }
    this.#parties.set(key, found)
    return found
  }

  /** Takes out whoever is not stuck, and then whoever is not stuck without them. */
  #letMove(): void {
    const open = [...this.#lines]
    for (let line = open.pop(); line !== undefined; line = open.pop()) {
      for (let first = line.waiters[line.moving]; first !== undefined; first = line.waiters[line.moving]) {
        if (line.heldUp + first.claim.weight > line.limit) break
        line.moving += 1
        for (const held of first.parties.flatMap(freedWithout)) {
          held.line.heldUp -= held.claim.weight
          open.push(held.line)
        }
      }
    }
    for (const party of this.#parties.values()) party.waiting = party.waiting.filter(isStuck)
  }
}

/** The holds that nothing holds up any more when one waiter of the party is not stuck after all. */
function freedWithout(party: Party): Held[] {
  party.stuck -= 1
  if (party.stuck > 0) return []
  for (const held of party.holds) held.heldUpBy -= 1
  return party.holds.filter(({ heldUpBy }) => heldUpBy === 0)
}

function ownerKey({ owner }: ClaimView, client: string): string | null {
  // Nobody has said which process it is: claims that nothing is known about, and callers of the lock service who did not say.
  if (owner.pid === 0) return null
  return JSON.stringify([owner.host, owner.pid, client])
}

/** Whether the holders alone are in the way; otherwise it is a stuck waiter ahead. */
function waitsForHolders({ claim, line }: Waiting): boolean {
  return line.heldUp + claim.weight > line.limit
}

function successorsOf(node: Node): readonly Node[] {
  if ('index' in node) {
    return waitsForHolders(node) ? [node.line] : [node.line.waiters[node.line.moving] as Waiting]
  }
  if ('resource' in node) return node.holders.flatMap((held) => liveParties(held))
  return node.waiting
}

function liveParties(held: Held): Party[] {
  return held.parties.filter(({ stuck }) => stuck > 0)
}

function byPlace(a: Waiting, b: Waiting): number {
  return byText(a.line.resource, b.line.resource) || a.index - b.index
}

function shortestCycle(starts: readonly Waiting[], members: ReadonlySet<Waiting>): DeadlockStep[] {
  let best: DeadlockStep[] = []
  for (const start of starts.slice(0, STARTS_MAX)) {
    const found = cycleThrough(start, members, best.length)
    if (found.length > 0) best = found
    if (best.length === 1) break
  }
  return best
}

/** Step by step outwards, until the start comes again. Each line and each party is looked into once. */
function cycleThrough(start: Waiting, members: ReadonlySet<Waiting>, below: number): DeadlockStep[] {
  const cameBy = new Map<Waiting, { readonly from: Waiting; readonly heldBy: ClaimView }>()
  const looked = new Set<Line | Party>()
  let ring: Waiting[] = [start]
  for (let length = 1; ring.length > 0 && (below === 0 || length < below); length += 1) {
    const next: Waiting[] = []
    for (const from of ring) {
      for (const { to, heldBy } of stepsFrom(from, looked)) {
        if (!members.has(to) || cameBy.has(to)) continue
        cameBy.set(to, { from, heldBy })
        if (to === start) return stepsBack(start, cameBy)
        next.push(to)
      }
    }
    ring = next
  }
  return []
}

function stepsFrom(
  from: Waiting,
  looked: Set<Line | Party>,
): { readonly to: Waiting; readonly heldBy: ClaimView }[] {
  const { line } = from
  if (!waitsForHolders(from)) {
    const first = line.waiters[line.moving] as Waiting
    return [{ to: first, heldBy: first.claim }]
  }
  const fresh = (node: Line | Party): boolean => !looked.has(node) && looked.add(node) === looked
  if (!fresh(line)) return []
  return line.holders.flatMap((held) =>
    liveParties(held)
      .filter(fresh)
      .flatMap(({ waiting }) => waiting.map((to) => ({ to, heldBy: held.claim }))),
  )
}

function stepsBack(
  start: Waiting,
  cameBy: ReadonlyMap<Waiting, { readonly from: Waiting; readonly heldBy: ClaimView }>,
): DeadlockStep[] {
  const steps: DeadlockStep[] = []
  let came = cameBy.get(start)
  while (came !== undefined) {
    const { from, heldBy } = came
    steps.unshift({ waiter: from.claim, waitsFor: from.line.resource, heldBy })
    came = from === start ? undefined : cameBy.get(from)
  }
  return steps
}

function evidenceOf(waiting: readonly Waiting[]): string[] {
  const seen = new Set<Node>(waiting)
  const refs = new Set<string>()
  for (const node of seen) {
    if ('index' in node) refs.add(`waits ${node.claim.ref}`)
    if ('resource' in node) {
      for (const held of node.holders) if (held.heldUpBy > 0) refs.add(`holds ${held.claim.ref}`)
    }
    for (const each of successorsOf(node)) seen.add(each)
  }
  return [...refs].toSorted(byText)
}
