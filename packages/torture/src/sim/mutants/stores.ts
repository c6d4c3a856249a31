import { CORE, type Mutant } from './mutant.js'

/** Faults that show only on some types of store, or only as a loss or a delay that nothing explains. */
export const STORE_MUTANTS: readonly Mutant[] = []
void CORE
