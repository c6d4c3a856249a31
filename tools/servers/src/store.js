// @ts-check
// The types that every store of this package shares.

/**
 * A store that is there: an URL for `connect`, fresh and empty, and the way to put everything away again.
 * @typedef {object} Store
 * @property {string} name
 * @property {string} url
 * @property {() => Promise<void>} dispose
 */

/**
 * What came of asking for a store: it is ready, or it cannot be had here, with a reason in words.
 * A test that gets `not run` must say so; it must not pass.
 * @typedef {{ readonly kind: 'ready', readonly store: Store }
 *   | { readonly kind: 'not run', readonly name: string, readonly reason: string }} StoreOutcome
 */

/**
 * One kind of store. `start` gives `not run` when a program that it needs is missing; it rejects when the store
 * is there but does not work, because that is a fault and no reason to leave tests out.
 * @typedef {object} StoreDefinition
 * @property {string} name
 * @property {() => Promise<StoreOutcome>} start
 */

export {}
