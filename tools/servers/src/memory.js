// @ts-check
import { randomUUID } from 'node:crypto'

/** The store inside the process: every URL names a space of its own. @type {import('./store.js').StoreDefinition} */
export const memory = {
  name: 'memory',
  start: async () => ({
    kind: 'ready',
    store: { name: 'memory', url: `memory:${randomUUID()}`, dispose: async () => undefined },
  }),
}
