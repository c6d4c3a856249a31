import type { LabCase } from '../../case.js'
import { postgresPool } from '../../recipes/databases/clients.js'
import { TokenRows } from '../../recipes/idempotency/postgres-service.js'
import { TokenDeletedFirst } from '../../recipes/idempotency/redis-tokens.js'
import { OUR_TOKENS, startTokenStore } from './token-stores.js'

export const tokenDeletedFirst: LabCase = {
  name: 'token-deleted-first',
  title: 'A token that is deleted before the work',
  family: 'idempotency',
  stores: ['redis', 'postgres'],
  story:
    '`DEL` the token, and do the work if the answer is 1. No two requests can both delete it, so nothing is done twice. ' +
    'Whoever finds it gone is told that all is done.',
  fault:
    'A is killed after it has deleted the token and before it does the work. The client sends the request again, to B. ' +
    'The token is gone, so B says that it is done, and it never is.',
  expects: 'never-executed',
  ours: `${OUR_TOKENS} The death of A takes its transaction back, so the token is fresh again and B does the work.`,
  resources: { 'token-1': { kind: 'idempotent' }, 'token-2': { kind: 'idempotent' } },
  setUp: async (scene) => void (await startTokenStore(scene)),
  open: {
    broken: (world) => new TokenDeletedFirst(world),
    ours: async (world) => new TokenRows(world, await postgresPool(world.url)),
  },
  schedule: async (scene) => {
    const [a, b] = [await scene.actor('A'), await scene.actor('B')]
    await a.act('issue', 'token-1')
    await a.act('submit', 'token-1')
    await a.act('issue', 'token-2')
    await a.arm('before the work', 'kill')
    await scene.dies(a.act('submit', 'token-2'))
    await scene.died(a)
    await b.act('submit', 'token-2')
  },
}
