/** Faults that the sequences must find. Each replaces a text that is in its file exactly once. */

export interface ServiceMutant {
  readonly name: string
  /** Below `packages`. */
  readonly file: string
  readonly find: string
  readonly replace: string
  /** The kinds of contradictions of which one must be found. */
  readonly kinds: readonly string[]
}

export const SERVICE_MUTANTS: readonly ServiceMutant[] = [
  {
    name: 'a weight is answered from the request',
    file: 'holdfast/src/core/acquire.ts',
    find: 'if (verdict.weight < weight) throw',
    replace: 'if (verdict.weight < 0) throw',
    kinds: ['weight', 'exclusion'],
  },
  {
    name: 'views of locks are not bounded',
    file: 'service/src/watch/shown.ts',
    find: 'if (next > bytesMax && index > 0)',
    replace: 'if (next < 0 && index > 0)',
    kinds: ['size'],
  },
  {
    name: 'the holders of a refusal are not bounded',
    file: 'service/src/routes/locks.ts',
    find: 'firstOf(view?.holders ?? [], REFUSAL_BYTES_MAX)',
    replace: 'firstOf(view?.holders ?? [], Number.POSITIVE_INFINITY)',
    kinds: ['size'],
  },
  {
    name: 'a release needs no right',
    file: 'service/src/routes/locks.ts',
    find: "const name = nameFor(options, request, 'acquire', request.params.name)\n  const { claim } = readPlace",
    replace: 'const name = request.params.name\n  const { claim } = readPlace',
    kinds: ['rights'],
  },
  {
    name: 'places in the quota are not given back',
    file: 'service/src/security/claims-held.ts',
    find: 'entry.reserved -= 1',
    replace: 'void entry',
    kinds: ['quota'],
  },
  {
    name: 'the quota refuses nothing',
    file: 'service/src/security/claims-held.ts',
    find: 'if (!this.#hasRoom(principal.name, key)) throw new TooManyClaimsError(this.#max)',
    replace: '',
    kinds: ['quota'],
  },
  {
    name: 'the note of another tenant is shown to a token that may not look',
    file: 'service/src/routes/locks.ts',
    find: 'holder: mayLook ? answer.holder : null',
    replace: 'holder: answer.holder',
    kinds: ['leak'],
  },
  {
    name: 'the id of a waiting claim is accepted under another name',
    file: 'holdfast/src/core/counter.ts',
    find: 'if (!isFor(same, claim)) throw idOfAnotherName()',
    replace: '',
    kinds: ['conflict', 'refusal', 'view'],
  },
  {
    name: 'a renewal of another place is accepted',
    file: 'holdfast/src/core/line.ts',
    find: 'place.fence !== request.fence || ',
    replace: '',
    kinds: ['renewal'],
  },
  {
    name: 'a record of another tenant can be read',
    file: 'service/src/records/record-desk.ts',
    find: 'const name = recordName(scope)\n    check(name)',
    replace: 'const name = recordName(scope)',
    kinds: ['rights', 'leak'],
  },
  {
    name: 'an event stream shows names without the right',
    file: 'service/src/watch/event-stream.ts',
    find: 'return name.startsWith(this.#options.prefix) && this.#options.maySee(name)',
    replace: 'return name.startsWith(this.#options.prefix)',
    kinds: ['leak'],
  },
  {
    name: 'a list shows names without the right',
    file: 'service/src/routes/looks.ts',
    find: "!isBehind(view.resource, after) || !request.principal.may('inspect', view.resource)",
    replace: '!isBehind(view.resource, after)',
    kinds: ['leak'],
  },
  {
    name: 'a break needs the right to acquire only',
    file: 'service/src/routes/looks.ts',
    find: "nameFor(options, request, 'break', request.params.name)",
    replace: "nameFor(options, request, 'acquire', request.params.name)",
    kinds: ['rights'],
  },
]
