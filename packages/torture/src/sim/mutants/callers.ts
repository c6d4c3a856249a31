import type { Mutant } from './mutant.js'

/** Faults of what surrounds a lock: contexts, listeners, the lifetime of the process, order, and what callers are promised. */
export const CALLER_MUTANTS: readonly Mutant[] = []
