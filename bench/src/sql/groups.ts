/** Everything on PostgreSQL, MariaDB and MySQL. */

import type { Group } from '../group.js'
import { polled, pushed } from './hand-over.js'
import { uncontended } from './uncontended.js'

export const sqlGroups: readonly Group[] = [
  ...(['postgres', 'mariadb', 'mysql'] as const).map((store) => ({
    name: `${store}-uncontended-1`,
    about: 'acquire + release, one caller, against the bare statements',
    run: (bench: Parameters<Group['run']>[0]) => uncontended(bench, store),
  })),
  { name: 'postgres-hand-over', about: 'how long a hand-over between two processes takes', run: pushed },
  ...(['mariadb', 'mysql'] as const).map((store) => ({
    name: `${store}-hand-over`,
    about: 'the same, between two processes that always want it',
    run: (bench: Parameters<Group['run']>[0]) => polled(bench, store),
  })),
]
