/**
 * What memcached and the way to it report becomes Holdfast's own error here and nowhere else. What is not understood is
 * never read as contention.
 */

import {
  BackendUnavailableError,
  describe,
  OutcomeUnknownError,
  quote,
  UnsupportedError,
} from '../../core/errors.js'

const BACKEND = 'memcached'

/** The connection was not there, so nothing was sent. */
export function notReached(where: string, cause: unknown): BackendUnavailableError {
  const code: unknown = cause instanceof Error ? Reflect.get(cause, 'code') : null
  const why = typeof code === 'string' ? ` (${code})` : ''
  return new BackendUnavailableError(
    `memcached at ${quote(where)} was not reached${why}. Check that it runs, and that this machine may reach it.`,
    { backend: BACKEND, cause },
  )
}

/** What was sent has no answer, and will have none: answers are told apart by their order alone. */
export function unanswered(cause: unknown): OutcomeUnknownError {
  return new OutcomeUnknownError('The connection to memcached ended before an answer came.', {
    backend: BACKEND,
    cause,
  })
}

export function tooLate(ms: number): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `memcached did not answer within ${ms} ms, so the connection was given up.`,
    { backend: BACKEND },
  )
}

/** Not sent, because it makes sense only on a connection that is not there any more. */
export function otherConnection(): BackendUnavailableError {
  return new BackendUnavailableError('The connection to memcached is another one by now.', {
    backend: BACKEND,
  })
}

/** The claim's request was on its way when its connection ended, and may arrive yet. */
export function stillOnItsWay(resource: string): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `An earlier request for ${quote(resource)} got no answer and may still reach memcached.`,
    { resource, backend: BACKEND },
  )
}

const OUT_OF_MEMORY = /^SERVER_ERROR out of memory/
const TOO_LARGE = /^SERVER_ERROR object too large/
const UNAUTHENTICATED = /^CLIENT_ERROR (?:unauthenticated|authentication)/

/** What to throw for a line with which the server refuses. It has done nothing, but for the cases that say otherwise. */
export function refusal(line: string, resource: string | null = null): Error {
  const context = { resource, backend: BACKEND }
  if (OUT_OF_MEMORY.test(line)) {
    return new BackendUnavailableError(
      `memcached has no memory left for ${quote(resource)}, and has dropped what it had stored there. Give it more.`,
      context,
    )
  }
  if (TOO_LARGE.test(line)) {
    return new BackendUnavailableError(
      `memcached does not take an item as large as the line for ${quote(resource)}. Raise its \`-I\`.`,
      context,
    )
  }
  if (UNAUTHENTICATED.test(line)) {
    return new UnsupportedError(
      'memcached wants a user name and a password, or does not accept them.',
      context,
    )
  }
  if (line.startsWith('ERROR Too many open connections')) {
    return new BackendUnavailableError('memcached has too many connections. Raise its `-c`.', context)
  }
  return new UnsupportedError(`memcached refused a command: ${describe(line)}.`, context)
}

/** An answer that is well formed but makes no sense here: the outcome of the command is unknown. */
export function strangeAnswer(what: string, resource: string | null = null): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `memcached answered with something that the command does not say (${describe(what)}). Is a proxy in between?`,
    { resource, backend: BACKEND },
  )
}

export function tooOld(found: string): UnsupportedError {
  return new UnsupportedError(
    `The server does not know the meta commands of memcached 1.6 (it says ${describe(found)}). Use a newer one.`,
    { backend: BACKEND },
  )
}

export function withoutCas(): UnsupportedError {
  return new UnsupportedError(
    'memcached runs with `-C`, which turns off compare-and-set. No lock is safe without it; start it without `-C`.',
    { backend: BACKEND },
  )
}

export function foreignValue(resource: string): UnsupportedError {
  return new UnsupportedError(
    `The key for ${quote(resource)} is in use for something else. Use another name, or another \`prefix\`.`,
    { resource, backend: BACKEND },
  )
}

/** What is under the key of a record was not written by this version of Holdfast. It is never overwritten. */
export function foreignRecord(): UnsupportedError {
  return new UnsupportedError(
    'The key of a record is in use for something else, or by another version of Holdfast. Nothing was changed; use ' +
      'another `prefix`.',
    { backend: BACKEND },
  )
}

/** Nothing was sent: a server that cannot store an item drops the one that it had. */
export function recordTooLarge(bytes: number, most: number): UnsupportedError {
  return new UnsupportedError(
    `A record of ${bytes} bytes does not fit into an item of memcached, which is to have ${most} at most. Store less of ` +
      'the result, or raise the `-I` of the server.',
    { backend: BACKEND },
  )
}

export function otherRecipe(resource: string, found: string, wanted: string): UnsupportedError {
  return new UnsupportedError(
    `${quote(resource)} is in use with the recipe \`${found}\`, but was asked for with \`${wanted}\`. ` +
      'Use one recipe for a name, or another `prefix`.',
    { resource, backend: BACKEND },
  )
}

export function lineFull(resource: string, claims: number): BackendUnavailableError {
  return new BackendUnavailableError(
    `${claims} claims stand in the line for ${quote(resource)}, and one more does not fit into an item of memcached. ` +
      'Let fewer wait at a time.',
    { resource, backend: BACKEND },
  )
}

export function tooContended(resource: string): BackendUnavailableError {
  return new BackendUnavailableError(
    `The line for ${quote(resource)} was changed by others each time that it was to be written.`,
    { resource, backend: BACKEND },
  )
}

export function clockUnset(): UnsupportedError {
  return new UnsupportedError(
    'The clock of the machine with memcached was not set when it started. Set it, and start memcached again.',
    { backend: BACKEND },
  )
}

export function cannotList(answer: string): UnsupportedError {
  return new UnsupportedError(
    `memcached cannot list its keys, because its LRU crawler is turned off (${describe(answer)}). ` +
      'Start it without `-o no_lru_crawler`, or ask for names one by one.',
    { backend: BACKEND },
  )
}

export function listingFailed(why: string): BackendUnavailableError {
  return new BackendUnavailableError(`memcached did not list its keys: ${why}.`, { backend: BACKEND })
}
