// @ts-check
// A store that cannot be had is reported as not run. Where it must be there, for example on the build machine, the
// variable HOLDFAST_REQUIRE_STORES turns that into an error: `all`, or names with commas between them.

/** @typedef {import('./store.js').StoreOutcome} StoreOutcome */

/** A store that is required is not there. */
export class StoreMissingError extends Error {
  /**
   * @param {string} store
   * @param {string} reason
   */
  constructor(store, reason) {
    super(`The store '${store}' is required by HOLDFAST_REQUIRE_STORES, but it cannot be had: ${reason}.`)
    this.name = 'StoreMissingError'
    this.store = store
    this.reason = reason
  }
}

/**
 * Reads which stores must be there. A name that no store has is an error, because a typing mistake would otherwise
 * require nothing.
 * @param {string | undefined} setting The value of HOLDFAST_REQUIRE_STORES.
 * @param {readonly string[]} known The names of all stores.
 * @returns {ReadonlySet<string>}
 */
export function requiredStores(setting, known) {
  const names = (setting ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  if (names.includes('all')) return new Set(known)
  for (const name of names) {
    if (!known.includes(name)) {
      throw new Error(`HOLDFAST_REQUIRE_STORES names '${name}'; the stores are ${known.join(', ')}.`)
    }
  }
  return new Set(names)
}

/**
 * Lets an outcome pass, or throws if it is `not run` and the store is required.
 * @param {StoreOutcome} outcome
 * @param {ReadonlySet<string>} required
 * @returns {StoreOutcome}
 */
export function applyPolicy(outcome, required) {
  if (outcome.kind === 'not run' && required.has(outcome.name)) {
    throw new StoreMissingError(outcome.name, outcome.reason)
  }
  return outcome
}
