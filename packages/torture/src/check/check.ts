import type { HeaderLine, HistoryEvent, HistoryLine, Promises, ResourceNote } from '../history/format.js'
import { type History, historyOf, readHistory } from '../history/reader.js'
import { booksOf } from './books.js'
import type { ResourceBook } from './calls.js'
import { explainStuck, findOrder, type ModelName, modelFor } from './linear/linearizability.js'
import { effectsOf, repeatedEffects, staleWrites, trippedWires } from './resources.js'
import { lostUpdates } from './sets.js'
import { type Surroundings, surroundingsOf } from './surroundings.js'
import { exclusionViolations } from './sweep/exclusion.js'
import { confirmedWaits, isJudged, unfairness } from './sweep/fairness.js'
import { fenceViolations } from './sweep/fences.js'
import { unexplainedLosses } from './sweep/losses.js'
import { promptnessViolations } from './sweep/promptness.js'
import { reentrancyViolations } from './sweep/reentrancy.js'
import { brokenPromises } from './sweep/usage.js'
import { refusedWhileFree, stuckWaiters } from './sweep/waiting.js'
import { forgedTokens } from './tokens.js'
import type { Verdict, VerdictCounts, Violation } from './verdict.js'

export interface CheckOptions {
  /** Why a violation is within what was declared, or null if it is not. */
  readonly admit?: (violation: Violation) => string | null
  /** Judges every resource by this model, whatever the header says of it. */
  readonly model?: ModelName
  /** The search gives up here, and says so. */
  readonly searchStates?: number
  readonly searchMs?: number
  /** Locks with more calls than this are left to the sweep, which is exact for them. */
  readonly searchLocksUpTo?: number
}

const SEARCH_LOCKS_UP_TO = 4_000

/** Judges a history that is in memory: lines as they were written, or what `readHistory` gave. */
export function checkHistory(history: History | readonly HistoryLine[], options: CheckOptions = {}): Verdict {
  return 'events' in history ? judge(history, options) : judge(historyOf(history), options)
}

/** Reads the files of one history and judges it. */
export function checkFiles(files: readonly string[], options: CheckOptions = {}): Verdict {
  return judge(readHistory(files), options)
}

const MUTEX: ResourceNote = { kind: 'mutex' }

/** What a name is, and what was promised, by all headers together; of two that contradict, the later one counts. */
export function termsOf(headers: readonly HeaderLine[]): {
  readonly noteOf: (resource: string) => ResourceNote
  readonly promises: Promises
} {
  const notes = new Map<string, ResourceNote>()
  let promises: Promises = {}
  for (const header of headers) {
    for (const [name, note] of Object.entries(header.resources ?? {})) notes.set(name, note)
    promises = { ...promises, ...header.promises }
  }
  return { noteOf: (resource) => notes.get(resource) ?? MUTEX, promises }
}

/** How many waiters had a confirmed position, and of how many of them the order can be judged. */
export function queueOf(history: History): { readonly confirmed: number; readonly judged: number } {
  const { noteOf, promises } = termsOf(history.headers)
  const around = surroundingsOf(history.events)
  let confirmed = 0
  let judged = 0
  for (const book of booksOf(history.events, noteOf).resources.values()) {
    const waits = confirmedWaits(book)
    confirmed += waits.length
    judged += waits.filter((wait) => isJudged(wait, promises, around)).length
  }
  return { confirmed, judged }
}

function judge(history: History, options: CheckOptions): Verdict {
  const terms = termsOf(history.headers)
  const { promises } = terms
  const noteOf = options.model === undefined ? terms.noteOf : noteAs(options.model, terms.noteOf)
  const around = surroundingsOf(history.events)
  const books = booksOf(history.events, noteOf)
  const undecided: string[] = []
  const violations: Violation[] = [
    ...history.malformed.map(({ file, line, problem }) => malformed(`${file}:${line}: ${problem}.`)),
    ...books.malformed,
  ]
  const all = [...books.resources.values()]
  violations.push(...forgedTokens(all.filter(({ name }) => noteOf(name).kind === 'idempotent')))
  const effectsAreNoted = all.some(
    (book) => noteOf(book.name).kind === 'idempotent' && effectsOf(book).length > 0,
  )
  for (const book of all) {
    const note = noteOf(book.name)
    const found = [
      ...resourceViolations(book, note, promises, around, effectsAreNoted),
      ...trippedWires(book),
    ]
    for (const violation of found) violations.push(violation)
    searchToo(book, note, promises, options, found.length > 0, violations, undecided)
  }
  violations.sort((a, b) => a.at - b.at)
  const told = options.admit === undefined ? violations : violations.map((each) => admitted(each, options))
  return {
    valid: told.every((violation) => violation.admitted !== undefined),
    violations: told,
    undecided,
    counts: countsOf(history.events, all),
  }
}

function resourceViolations(
  book: ResourceBook,
  note: ResourceNote,
  promises: Promises,
  around: Surroundings,
  effectsAreNoted: boolean,
): Violation[] {
  if (note.kind === 'register') return staleWrites(book)
  if (note.kind === 'set') return lostUpdates(book)
  if (note.kind === 'idempotent') return repeatedEffects(book, effectsAreNoted)
  return [
    ...exclusionViolations(book.name, note, book.holds),
    ...reentrancyViolations(book, note, promises),
    ...(promises.fences === true ? fenceViolations(book.name, note, book.holds) : []),
    ...promptnessViolations(book, promises, around),
    ...stuckWaiters(book, note, promises, around),
    ...(promises.fair === true ? unfairness(book, note, promises, around) : []),
    ...refusedWhileFree(book, promises, around),
    ...unexplainedLosses(book, promises, around),
    ...brokenPromises(book, note, promises, around),
  ]
}

/** Where something was found already, that no order explains it would only say the same again. */
function searchToo(
  book: ResourceBook,
  note: ResourceNote,
  promises: Promises,
  options: CheckOptions,
  alreadyWrong: boolean,
  violations: Violation[],
  undecided: string[],
): void {
  const model = options.model ?? modelFor(note, promises)
  if (model === null || alreadyWrong) return
  const ofValues = note.kind === 'register' || note.kind === 'idempotent'
  const most = options.searchLocksUpTo ?? SEARCH_LOCKS_UP_TO
  if (!ofValues && options.model === undefined && book.calls.length > most) return
  const result = findOrder(model, book, note, {
    ...(options.searchStates === undefined ? {} : { states: options.searchStates }),
    ...(options.searchMs === undefined ? {} : { timeMs: options.searchMs }),
  })
  if (result.verdict === 'invalid') violations.push(explainStuck(book.name, model, result))
  if (result.verdict === 'undecided') {
    undecided.push(`Whether ${book.name} is a ${model}: ${result.why} (${result.states} states).`)
  }
}

function noteAs(model: ModelName, noteOf: (resource: string) => ResourceNote) {
  return (resource: string): ResourceNote => {
    const { limit } = noteOf(resource)
    const reentrant = model === 'reentrant' || model === 'reentrant-fenced'
    const kind =
      model === 'semaphore' || model === 'read-write' || model === 'register' || model === 'idempotent'
        ? model
        : 'mutex'
    return limit === undefined ? { kind, reentrant } : { kind, reentrant, limit }
  }
}

function malformed(message: string): Violation {
  return { kind: 'malformed', resource: '', at: 0, message }
}

function admitted(violation: Violation, { admit }: CheckOptions): Violation {
  const reason = admit?.(violation) ?? null
  return reason === null ? violation : { ...violation, admitted: reason }
}

function countsOf(events: readonly HistoryEvent[], books: readonly ResourceBook[]): VerdictCounts {
  let acquired = 0
  let lost = 0
  let unknown = 0
  for (const { f, type } of events) {
    if (f === 'acquire' && type === 'ok') acquired++
    else if (f === 'lost') lost++
  }
  for (const { calls } of books) {
    for (const { outcome } of calls) if (outcome === 'info' || outcome === 'open') unknown++
  }
  return { events: events.length, acquired, lost, unknown }
}
