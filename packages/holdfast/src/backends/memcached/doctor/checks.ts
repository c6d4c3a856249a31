/** What to make of what a server tells about itself. Pure: facts in, findings out. */

import type { Finding } from '../../../core/doctor.js'
import { count, finding, isLoopback, ok } from '../../shared/doctor/findings.js'
import type { MemcachedAddress } from '../client.js'
import { isDate } from '../ticks.js'

export interface Facts {
  readonly version: string
  readonly settings: ReadonlyMap<string, string>
  readonly stats: ReadonlyMap<string, string>
}

type Check = (facts: Facts) => readonly Finding[]

const NEARLY_FULL = 0.8
const CROWDED = 0.8
const YOUNG_S = 600
const SMALL_ITEM_BYTES = 64 * 1024

export function checkFacts(facts: Facts): Finding[] {
  return CHECKS.flatMap((check) => check(facts))
}

export function checkTransport({ tls, host, password }: MemcachedAddress): Finding[] {
  if (tls === true) return [ok('transport', 'TLS')]
  if (isLoopback(host)) return [ok('transport', 'TCP within this machine')]
  if (password === undefined) {
    const advice = 'Whoever reaches the server can break every lock. Use `-Y` and TLS, `memcacheds://`.'
    return [finding('note', 'transport', 'TCP to another machine, without a password', advice)]
  }
  const advice = 'Whoever can listen on the way learns the password. Use TLS: `memcacheds://`.'
  return [finding('warning', 'transport', 'TCP to another machine, with the password in the clear', advice)]
}

const server: Check = ({ version }) => [ok('server', `memcached ${version}`)]

const safety: Check = () => [
  finding(
    'note',
    'safety',
    'best effort: an item can vanish at any time, and there are no fences',
    'Use these locks to save work. Where two holders at once would do harm, use a database, etcd or ZooKeeper.',
  ),
]

const eviction: Check = ({ settings, stats }) => {
  const used = numberIn(stats, 'bytes')
  const limit = numberIn(stats, 'limit_maxbytes')
  const evicted = numberIn(stats, 'evictions')
  if (limit === null || used === null || evicted === null) return []
  const share = `${Math.round((used / limit) * 100)} % of ${Math.round(limit / 1024 / 1024)} MB in use`
  if (settings.get('evictions') === 'off') {
    const advice =
      'A server with `-M` that is full drops the very item that it cannot write, which frees the lock. Let it evict, ' +
      'and give it more memory than is ever used.'
    return [finding('warning', 'eviction', `turned off by \`-M\`; ${share}`, advice)]
  }
  if (evicted > 0) {
    const found = `${count(evicted, 'item')} dropped for want of memory so far; ${share}`
    return [
      finding(
        'danger',
        'eviction',
        found,
        'Locks are dropped like any item. Raise `-m`, or use a server for locks alone.',
      ),
    ]
  }
  if (used > limit * NEARLY_FULL) {
    return [finding('warning', 'eviction', `none yet, but ${share}`, 'Raise `-m` before items are dropped.')]
  }
  return [ok('eviction', `none so far; ${share}`)]
}

const uptime: Check = ({ stats }) => {
  const up = numberIn(stats, 'uptime')
  if (up === null || up >= YOUNG_S) return up === null ? [] : [ok('uptime', `${Math.floor(up / 60)} minutes`)]
  const advice = 'A restart frees every lock at once. If it was not meant, find out why the server ended.'
  return [finding('note', 'uptime', `started ${count(up, 'second')} ago`, advice)]
}

const clock: Check = ({ stats }) => {
  const time = numberIn(stats, 'time')
  if (time === null) return []
  if (isDate(time))
    return [ok('clock', 'counts whole seconds, from a clock that was set when the server started')]
  const advice = 'Set the clock of its machine, and start memcached again: the recipe `record` writes dates.'
  return [finding('danger', 'clock', 'was not set when the server started', advice)]
}

const crawler: Check = ({ settings }) => {
  if (settings.get('lru_crawler') !== 'no') return [ok('listing', 'possible: the LRU crawler is on')]
  const advice = 'Start it without `-o no_lru_crawler`. Locking works without it.'
  return [finding('note', 'listing', 'locks cannot be listed: the LRU crawler is off', advice)]
}

const items: Check = ({ settings }) => {
  const most = numberIn(settings, 'item_size_max')
  if (most === null) return []
  const found = `items of up to ${Math.round(most / 1024)} KB`
  if (most >= SMALL_ITEM_BYTES) return [ok('items', found)]
  return [finding('note', 'items', found, 'Few claims can wait for one name at a time. Raise `-I`.')]
}

const clients: Check = ({ stats }) => {
  const most = numberIn(stats, 'max_connections')
  const present = numberIn(stats, 'curr_connections')
  if (most === null || present === null) return []
  const found = `${present} of ${most}`
  if (present < most * CROWDED) return [ok('clients', found)]
  return [finding('warning', 'clients', found, 'Raise `-c`. A refused client cannot renew its locks.')]
}

const idle: Check = ({ settings }) => {
  const seconds = numberIn(settings, 'idle_timeout') ?? 0
  if (seconds === 0) return []
  const advice = 'They are opened again when they are needed, which costs the first request some time.'
  return [finding('note', 'idle', `connections that are idle for ${seconds} s are closed`, advice)]
}

const CHECKS: readonly Check[] = [server, safety, eviction, uptime, clock, crawler, items, clients, idle]

function numberIn(fields: ReadonlyMap<string, string>, name: string): number | null {
  const text = fields.get(name)
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null
}
