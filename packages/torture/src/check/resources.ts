import type { Micros } from '../history/format.js'
import type { Call, ResourceBook } from './calls.js'
import type { Violation } from './verdict.js'

/** Whether a resource that checks fences took a write after it had taken one with a higher fence. */
export function staleWrites(book: ResourceBook): Violation[] {
  const writes = book.calls.filter(
    ({ f, outcome, input }) => f === 'write' && outcome === 'ok' && input?.fence !== undefined,
  )
  const byEnd = [...writes].sort((a, b) => a.ended - b.ended)
  const byAsked = [...writes].sort((a, b) => a.asked - b.asked)
  const violations: Violation[] = []
  let highest: { fence: bigint; call: Call } | null = null
  let ended = 0
  for (const write of byAsked) {
    for (let other = byEnd[ended]; other !== undefined && other.ended < write.asked; other = byEnd[++ended]) {
      const fence = BigInt(other.input?.fence ?? 0)
      if (highest === null || fence > highest.fence) highest = { fence, call: other }
    }
    const fence = BigInt(write.input?.fence ?? 0)
    if (highest === null || fence >= highest.fence) continue
    violations.push({
      kind: 'stale-write-accepted',
      resource: book.name,
      at: write.ended,
      message: `A write of ${write.p} with fence ${fence} was accepted after one of ${highest.call.p} with ${highest.fence}.`,
      involved: [spanOf(highest.call), spanOf(write)],
    })
  }
  return violations
}

/** Whatever met another although it must be alone says so itself. */
export function trippedWires(book: ResourceBook): Violation[] {
  return book.tripped.map(({ p, t, v }) => ({
    kind: 'tripwire',
    resource: book.name,
    at: t,
    message: `${p} met another where it must be alone${v?.target === undefined ? '' : `: ${v.target}`}.`,
    involved: [p, v?.target].flatMap((who) => (who === undefined ? [] : [{ p: who, from: t, to: t }])),
  }))
}

/** An effect that is noted is an `add` or a `write` on the resource of the key, written by the effect itself. */
export function effectsOf(book: ResourceBook): readonly Call[] {
  return book.calls.filter(({ f, outcome }) => (f === 'add' || f === 'write') && outcome === 'ok')
}

/**
 * Whether what must be done once was done twice: its effect is there more than once, or two callers were given
 * different answers. Where effects are noted at all, an answer without one is told too.
 */
export function repeatedEffects(book: ResourceBook, effectsAreNoted: boolean): Violation[] {
  const violations: Violation[] = []
  const effects = effectsOf(book)
  const [first, ...again] = effects
  for (const effect of again) {
    violations.push({
      kind: 'executed-twice',
      resource: book.name,
      at: effect.ended,
      message: `${effect.p} had an effect that ${first?.p ?? 'another'} had had already.`,
      involved: [first ?? effect, effect].map(spanOf),
    })
  }
  const answered = book.calls.filter(({ f, outcome }) => f === 'execute' && outcome === 'ok')
  const [model, ...others] = answered
  if (model === undefined) return violations
  for (const other of others) {
    const what =
      other.input?.input !== model.input?.input
        ? 'another request'
        : JSON.stringify(other.output?.value) !== JSON.stringify(model.output?.value)
          ? 'another answer'
          : null
    if (what === null) continue
    violations.push({
      kind: 'executed-twice',
      resource: book.name,
      at: other.ended,
      message: `Under the same key, ${other.p} and ${model.p} were both answered, to one of them ${what}.`,
      involved: [model, other].map(spanOf),
    })
  }
  // One whose end nobody knows, such as that of a process that was killed in it, may be there.
  const mayBeThere = book.calls.some(({ f, outcome }) => (f === 'add' || f === 'write') && outcome !== 'fail')
  if (effectsAreNoted && !mayBeThere) {
    violations.push({
      kind: 'never-executed',
      resource: book.name,
      at: model.ended,
      message: `${model.p} was given an answer, and there was no effect.`,
      involved: [spanOf(model)],
    })
  }
  return violations
}

function spanOf({ p, asked, ended }: Call): { p: string; from: Micros; to: Micros } {
  return { p, from: asked, to: ended }
}
