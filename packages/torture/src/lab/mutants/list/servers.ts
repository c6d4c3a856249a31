import type { RecipeMutant } from '../mutant.js'
import { replacedDatabase, sameServerTwice } from '../trials/servers.js'

/** Faults of a client that takes a server, or a connection, for the one that it knows, without a look at who it is. */
const forUpdate = {
  store: 'mariadb',
  query: 'recipe=for-update',
  file: 'holdfast/src/backends/mysql/transaction.ts',
  trial: replacedDatabase,
  expects: 'overlap',
} as const

export const SERVER_MUTANTS: readonly RecipeMutant[] = [
  {
    ...forUpdate,
    name: 'for-update: a connection known by its number only',
    find: 'alive: (control, held) => aliveAmong(control, looks, held),',
    replace: `alive: async (control, held) => {
      const there = looks.length === 0 ? new Map() : await processes(control)
      return new Set(held.flatMap(({ connection }, index) => (there.has(connection) ? [index] : [])))
    },`,
  },
  {
    ...forUpdate,
    name: 'for-update: the mark of a transaction not compared',
    // biome-ignore-start lint/suspicious/noTemplateCurlyInString: they are texts of the source.
    find: "signed.get(hashOf(resource).toString('hex')) === `${mark} ${connection}`",
    replace: "mark !== '' && signed.get(hashOf(resource).toString('hex'))?.split(' ')[1] === connection",
    // biome-ignore-end lint/suspicious/noTemplateCurlyInString: as above.
  },
  {
    store: 'redis-masters',
    name: 'redlock: one server votes for each of its addresses',
    file: 'holdfast/src/backends/redis/redlock-backend.ts',
    find: "if (twins !== null) return { kind: 'failed', error: twins }",
    replace: '',
    trial: sameServerTwice,
    expects: 'overlap',
  },
]
