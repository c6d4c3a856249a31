// @ts-check
export { requiredStores, StoreMissingError } from './policy.js'
export { storeFor, stores } from './registry.js'

/** @typedef {import('./store.js').Store} Store */
/** @typedef {import('./store.js').StoreDefinition} StoreDefinition */
/** @typedef {import('./store.js').StoreOutcome} StoreOutcome */
