import type { RecipeMutant } from '../mutant.js'
import { DATABASE_MUTANTS } from './databases.js'
import { REDIS_MUTANTS } from './redis.js'
import { SERVER_MUTANTS } from './servers.js'
import { SESSION_MUTANTS } from './sessions.js'

/** Every fault that is planted, in the order in which they are shown. */
export const RECIPE_MUTANTS: readonly RecipeMutant[] = [
  ...REDIS_MUTANTS,
  ...DATABASE_MUTANTS,
  ...SESSION_MUTANTS,
  ...SERVER_MUTANTS,
]
