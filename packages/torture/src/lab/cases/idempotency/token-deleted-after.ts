import type { LabCase } from '../../case.js'
import { postgresPool } from '../../recipes/databases/clients.js'
import { TokenRows } from '../../recipes/idempotency/postgres-service.js'
import { TokenDeletedAfter } from '../../recipes/idempotency/redis-tokens.js'
import { OUR_TOKENS, startTokenStore } from './token-stores.js'
import { twoAtOnce } from './two-at-once.js'

export const tokenDeletedAfter: LabCase = {
  name: 'token-deleted-after',
  title: 'A token that is deleted after the work',
  family: 'idempotency',
  stores: ['redis', 'postgres'],
  story:
    '`GET` the token, do the work, `DEL` the token. It is deleted last so that a request that fails can be sent again ' +
    'with the same token.',
  fault:
    'The button is pressed twice. A has seen the token and is about to do the work; B sees it as well. Both do the work.',
  expects: 'executed-twice',
  ours: `${OUR_TOKENS} B waits for the row until A has committed, finds it used, and gets the answer of A.`,
  resources: { 'token-1': { kind: 'idempotent' } },
  // The schedule needs the store, and starts it.
  setUp: async () => {},
  open: {
    broken: (world) => new TokenDeletedAfter(world),
    ours: async (world) => new TokenRows(world, await postgresPool(world.url)),
  },
  schedule: async (scene) => await twoAtOnce(scene, await startTokenStore(scene), 'token-1'),
}
