import { CALLER_MUTANTS } from './mutants/callers.js'
import { CORE_MUTANTS } from './mutants/core.js'
import type { Mutant } from './mutants/mutant.js'

export type { Mutant }

export const MUTANTS: readonly Mutant[] = [...CORE_MUTANTS, ...CALLER_MUTANTS]
