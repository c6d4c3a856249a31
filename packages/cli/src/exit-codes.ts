import { constants } from 'node:os'

/** What the command itself exits with; the numbers up to 78 are those of sysexits.h. */
export const EXIT = {
  ok: 0,
  /** `break` found nothing to evict, or the demonstration did not show what it should. */
  nothing: 1,
  /** `doctor` found a warning or a danger. */
  unwell: 1,
  usage: 64,
  unavailable: 69,
  internal: 70,
  notAcquired: 75,
  lockLost: 79,
  /** `ls --deadlocks` found one that is certain. */
  deadlock: 80,
  /** `ls --deadlocks` found none that is certain, but claims of which nobody has said where they belong. */
  possibleDeadlock: 81,
  cannotRun: 126,
  notFound: 127,
} as const

/** How a shell reports death by a signal. */
export function exitCodeOfSignal(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal]
}

export const EXIT_CODES_HELP = `
Exit codes:
  the command's own, or 128+n if it died by signal n
  64   wrong usage, or a name that is in use as another kind of lock
  69   the store is not available, or did not answer when the wait was over
  70   an error inside holdfast
  75   the lock was not acquired in time, its queue is full, or its wait was given up to end a deadlock
  79   the lock was lost while the command ran
  126  the command cannot be run
  127  the command was not found
  130  interrupted (128+n) before the command was started`
