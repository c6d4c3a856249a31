// @ts-check
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** SQLite needs no server: every store is a file in a temporary folder. @type {import('./store.js').StoreDefinition} */
export const sqlite = {
  name: 'sqlite',
  start: async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-sqlite-'))
    return {
      kind: 'ready',
      store: {
        name: 'sqlite',
        url: `sqlite:${join(folder, 'locks.db')}`,
        dispose: () => rm(folder, { recursive: true, force: true }),
      },
    }
  },
}
