import { isBehind } from './circles.js'
import type { Deadlock, Guarantees } from './contract.js'
import { shortened } from './visible.js'
import { ownerText } from './words.js'

/** A circle as one sentence for each of those in it, and one that says what it means. */
export function explain(deadlock: Deadlock): { readonly steps: readonly string[]; readonly end: string } {
  const steps = deadlock.cycle.map((step) => {
    const [who, by] = [step.waiter.owner, step.heldBy.owner].map((owner) => shortened(ownerText(owner), 60))
    const why = isBehind(step, deadlock) ? ` behind ${by}` : `, which ${by} holds`
    return `${who} waits for “${shortened(step.waitsFor, 60)}”${why}.`
  })
  const end = deadlock.certain
    ? 'None of them can go on until one gives up: a wait that ends, a lease that expires, or a break.'
    : 'They may be waiting for each other: the names show it, but the same process may also be doing two things at once.'
  return { steps, end }
}

export interface StorePromise {
  readonly word: string
  readonly tone: 'good' | 'fair' | 'weak'
  readonly meaning: string
}

/** What the store guarantees, in short words with what they mean. */
export function promises(guarantees: Guarantees): StorePromise[] {
  const safety: Record<Guarantees['safety'], StorePromise> = {
    consensus: {
      word: 'consensus',
      tone: 'good',
      meaning: 'Several servers agree on every hold; one may fail.',
    },
    'single-node': {
      word: 'one server',
      tone: 'fair',
      meaning: 'One server decides. If it loses data, so do the locks.',
    },
    'best-effort': {
      word: 'best effort',
      tone: 'weak',
      meaning: 'Two may hold at once in rare failures: use the fences.',
    },
  }
  const fencing: Record<Guarantees['fencing'], StorePromise> = {
    strict: {
      word: 'fenced',
      tone: 'good',
      meaning: 'Every hold has a number higher than all before it, also after failures.',
    },
    'best-effort': {
      word: 'fenced mostly',
      tone: 'fair',
      meaning: 'Numbers rise, unless the store loses what it wrote.',
    },
    none: {
      word: 'no fences',
      tone: 'weak',
      meaning: 'The store has no rising numbers to tell late holders by.',
    },
  }
  const keptBy: Record<Guarantees['keptBy'], StorePromise> = {
    lease: {
      word: 'leases',
      tone: 'good',
      meaning: 'A hold lives for its lease and is renewed in time by its holder.',
    },
    session: {
      word: 'sessions',
      tone: 'good',
      meaning: 'A hold lives as long as the session of its holder at the store.',
    },
    connection: {
      word: 'connections',
      tone: 'fair',
      meaning: 'A hold lives as long as a connection of its holder to the store.',
    },
  }
  const fair: StorePromise = guarantees.fair
    ? { word: 'fair', tone: 'good', meaning: 'Who came first is served first.' }
    : { word: 'not fair', tone: 'weak', meaning: 'Whoever asks at the right moment is next.' }
  return [safety[guarantees.safety], fencing[guarantees.fencing], keptBy[guarantees.keptBy], fair]
}
