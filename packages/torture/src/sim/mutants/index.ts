import { CALLER_MUTANTS } from './callers.js'
import { CORE_MUTANTS } from './core.js'
import type { Mutant } from './mutant.js'
import { STORE_MUTANTS } from './stores.js'

export type { Mutant } from './mutant.js'

export const MUTANTS: readonly Mutant[] = [...CORE_MUTANTS, ...STORE_MUTANTS, ...CALLER_MUTANTS]
