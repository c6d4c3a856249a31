/** How a torture run looks. Pure: from what is known to lines of text. */

import type { Progress, StageDefinition, TortureOutcome, Violation } from 'holdfast-torture'
import type { Paint } from '../demo/view.js'
import { formatDuration } from '../format/duration.js'
import { escapeText } from '../format/escape.js'
import { layOutTable } from '../format/table.js'

const BAR_WIDTH = 24
/** As many of one kind are told; the report has all of them. */
const TOLD_MAX = 3

const PHASES: Readonly<Record<Progress['phase'], string>> = {
  starting: 'starting the store and the workers',
  faults: 'faults',
  healing: 'left in peace',
  finishing: 'everybody is served once more',
  leftovers: 'looking for what is left',
  checking: 'checking the history',
}

/** Its height does not change, so that nothing jumps. */
export function liveLines(what: string, progress: Progress, paint: Paint): string[] {
  const { acquired, lost, refused, unknown, waiting, workers, injected, active } = progress
  return [
    `${paint('bold', 'holdfast torture')}  ${escapeText(what)}   ${bar(progress)}`,
    '',
    `  phase     ${PHASES[progress.phase]}`,
    `  workers   ${workers} at work, ${waiting} callers wait`,
    `  acquired  ${paint('bold', String(acquired))}   refused ${refused}   lost ${lost}   unknown ${unknown}`,
    `  faults    ${injected} so far${active.length === 0 ? '' : `, now ${paint('yellow', active.map(escapeText).join(', '))}`}`,
  ]
}

export function plainLine({ phase, elapsedMs, acquired, lost, unknown, active }: Progress): string {
  const now = active.length === 0 ? '' : `  now: ${active.map(escapeText).join(', ')}`
  return `${formatDuration(elapsedMs)}  ${PHASES[phase]}: ${acquired} acquired, ${lost} lost, ${unknown} unknown${now}`
}

function bar({ elapsedMs, totalMs }: Progress): string {
  const share = totalMs === 0 ? 0 : Math.min(1, elapsedMs / totalMs)
  const done = Math.floor(share * BAR_WIDTH)
  return `[${'='.repeat(done)}${' '.repeat(BAR_WIDTH - done)}] ${(elapsedMs / 1_000).toFixed(0)}s`
}

export function summaryLines(outcome: TortureOutcome, paint: Paint, width?: number): string[] {
  const { verdict, faults, plainSet, register, guarantees, queue } = outcome
  const faultText = faults.map(({ name, count }) => `${name} ${count}`).join(', ')
  return [
    `${escapeText(outcome.store)} (${escapeText(outcome.recipe)}), seed ${outcome.seed}, ` +
      `${outcome.workers} workers, leases of ${formatDuration(outcome.ttlMs)}, took ${formatDuration(outcome.tookMs)}`,
    '',
    ...nameTable(outcome, width),
    '',
    `Faults: ${faultText === '' ? 'none' : faultText}.`,
    ...outcome.trouble.map((each) => `Could not be carried out: ${escapeText(each)}`),
    `Plain files: ${plainSet.added} additions under the lock, ${plainSet.unprotectedLosses} lost by writes after the lease.`,
    ...(guarantees.fencing === 'none'
      ? ['The store mints no fences, so there was no fenced register.']
      : [`Fenced register: ${register.accepted} accepted, ${register.refused} refused.`]),
    ...(guarantees.fair
      ? [`Queue: ${queue.confirmed} confirmed positions, ${queue.judged} of them judged.`]
      : ['The store serves waiters in no order, so their order was not judged.']),
    ...outcome.health.map(healthLine),
    ...verdict.undecided.map((each) => `Not decided: ${escapeText(each)}`),
    '',
    ...violationLines(verdict.violations, paint),
  ]
}

/** What a worker kept, from the end of its warm-up to the end of its work. */
function healthLine({ process, health: { first, working, idle } }: TortureOutcome['health'][number]): string {
  const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(1)
  const [warm = first] = working
  const active = Object.values(idle.resources).reduce((sum, count) => sum + count, 0)
  return (
    `Worker ${escapeText(process)}: ${idle.acquired} acquisitions, heap ${mebibytes(warm.heapBytes)} to ` +
    `${mebibytes(idle.heapBytes)} MiB, ${active} active handles and timers, ${idle.signalListeners} listeners left.`
  )
}

function nameTable({ names }: TortureOutcome, width?: number): string[] {
  const ms = (value: number | undefined): string => (value === undefined ? '-' : formatDuration(value))
  return layOutTable(
    [
      { heading: 'NAME', shrinks: true },
      ...['ACQUIRED', 'REFUSED', 'LOST', 'UNKNOWN', 'WAIT p50', 'p99', 'MAX'].map((heading) => ({
        heading,
        align: 'right' as const,
      })),
    ],
    names.map(({ name, acquired, refused, lost, unknown, waitedMs }) => [
      escapeText(name),
      ...[acquired, refused, lost, unknown].map(String),
      ms(waitedMs?.p50),
      ms(waitedMs?.p99),
      ms(waitedMs?.max),
    ]),
    width,
  )
}

function violationLines(violations: readonly Violation[], paint: Paint): string[] {
  const bad = violations.filter(({ admitted }) => admitted === undefined)
  const admitted = violations.filter((each) => each.admitted !== undefined)
  const lines = bad.length === 0 ? [paint('green', 'No violation.')] : [paint('red', `${countOf(bad)}:`)]
  lines.push(...tell(bad))
  if (admitted.length > 0)
    lines.push(`${countOf(admitted)} that the declared guarantees admit:`, ...tell(admitted))
  return lines
}

function countOf(violations: readonly Violation[]): string {
  return `${violations.length} violation${violations.length === 1 ? '' : 's'}`
}

function tell(violations: readonly Violation[]): string[] {
  const kinds = [...new Set(violations.map(({ kind }) => kind))]
  return kinds.flatMap((kind) => {
    const ofKind = violations.filter((each) => each.kind === kind)
    const why = ofKind[0]?.admitted
    return [
      `  ${kind} (${ofKind.length})${why === undefined ? '' : `  ${escapeText(why)}`}`,
      ...ofKind
        .slice(0, TOLD_MAX)
        .map(({ resource, message }) => `    ${escapeText(`${resource}: ${message}`)}`),
    ]
  })
}

export function listLines(
  definitions: readonly StageDefinition[],
  faultsOf: (store: string) => readonly string[],
  width?: number,
): string[] {
  return layOutTable(
    [{ heading: 'STORE' }, { heading: 'RECIPE' }, { heading: 'HERE' }, { heading: 'FAULTS', shrinks: true }],
    definitions.map((each) => [
      each.store,
      each.recipe,
      each.missing() === null ? 'yes' : escapeText(`no: ${each.missing()}`),
      faultsOf(each.store).join(','),
    ]),
    width,
  )
}
