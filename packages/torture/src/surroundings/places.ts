/** A place of its own in a shared server for every recipe, and how clients reach it. */

import { randomUUID } from 'node:crypto'
import { mysqlQuery, postgresQuery } from 'holdfast-servers'
import { portOf } from './probes/probe.js'
import type { Recipe } from './subject.js'

export interface RecipeDefinition {
  readonly store: string
  readonly recipe: string
  /** The server that `holdfast-servers` starts for it. */
  readonly server: string
  readonly ttlMs: number
  /** Makes the place, and returns the URL that leads to it. */
  place(serverUrl: string): Promise<string>
}

const TTL_MS = 1_000
const QUERY_MS = 60_000
/** Enough connections where every lock needs one. */
const CONNECTIONS = 12

export const RECIPES: readonly RecipeDefinition[] = [
  {
    store: 'memory',
    recipe: 'line',
    server: 'memory',
    ttlMs: TTL_MS,
    place: async () => `memory:${randomUUID()}`,
  },
  { store: 'sqlite', recipe: 'line', server: 'sqlite', ttlMs: TTL_MS, place: async (url) => url },
  ...['line', 'set-nx'].map((recipe, index) => ({
    store: 'redis',
    recipe,
    server: 'redis',
    ttlMs: TTL_MS,
    place: async (url: string) => `${url}/${index}?recipe=${recipe}`,
  })),
  {
    store: 'redis',
    recipe: 'redlock',
    server: 'redis-masters',
    ttlMs: TTL_MS,
    place: async (url) => `${url}?restartDelayMs=0`,
  },
  ...['rows', 'advisory', 'for-update', 'advisory-xact'].map((recipe) => sql('postgres', recipe)),
  ...['mysql', 'mariadb'].flatMap((store) =>
    ['rows', 'get-lock', 'for-update'].map((recipe) => sql(store, recipe)),
  ),
  ...['sequential', 'ephemeral'].map((recipe) => ({
    store: 'zookeeper',
    recipe,
    server: 'zookeeper',
    ttlMs: 2_000,
    place: async (url: string) => `${url}/${recipe}?recipe=${recipe}&sessionMs=30000`,
  })),
  {
    store: 'etcd',
    recipe: 'lease',
    server: 'etcd',
    ttlMs: 1_200,
    place: async (url) => `${url}?versionWarning=false`,
  },
  {
    store: 'consul',
    recipe: 'session',
    server: 'consul',
    ttlMs: TTL_MS,
    place: async (url) => `${url}?ttlMinMs=${TTL_MS}&lockDelayMs=0`,
  },
  ...['record', 'add'].map((recipe) => ({
    store: 'memcached',
    recipe,
    server: 'memcached',
    ttlMs: TTL_MS,
    place: async (url: string) => `${url}?recipe=${recipe}`,
  })),
]

function sql(store: string, recipe: string): RecipeDefinition {
  return {
    store,
    recipe,
    server: store,
    ttlMs: TTL_MS,
    place: async (url) => {
      const database = `s_${recipe.replaceAll('-', '_')}_${randomUUID().slice(0, 8)}`
      const query = store === 'postgres' ? postgresQuery : mysqlQuery
      await query(portOf(url), `CREATE DATABASE ${database}`, { timeoutMs: QUERY_MS })
      const own = url.replace(/[^/]*$/, database)
      return `${own}?recipe=${recipe}&max=${CONNECTIONS}`
    },
  }
}

/** With sessions as short as a check that waits for their end needs them. Elsewhere a busy machine must not end them. */
export function shortUrlOf({ url }: Pick<Recipe, 'url'>): string {
  return url.replace(/sessionMs=\d+/, 'sessionMs=5000')
}

/** Without the options of locks, for what has no recipes: records and the caller's own connections. */
export function plainUrlOf({ store, url }: Pick<Recipe, 'store' | 'url'>): string {
  const plain = url.replace(/\?.*$/, '')
  if (store === 'etcd') return `${plain}?versionWarning=false`
  return plain
}

/** Null: the store keeps no idempotency records, because it has several masters and no consensus. */
export function recordsUrlOf(recipe: Recipe): string | null {
  return recipe.recipe === 'redlock' ? null : plainUrlOf(recipe)
}

export function sqlitePathOf(url: string): string {
  return url.replace(/^sqlite:/, '').replace(/\?.*$/, '')
}
