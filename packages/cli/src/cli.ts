import type { Interruption } from './interruption.js'

/** What the program and its commands share. */
export interface Cli {
  readonly interruption: Interruption
  /** What stood behind `--`; null where there was none. */
  readonly childCommand: readonly string[] | null
  /** Set by the command that ran. */
  exitCode: number
}
