import type { RecipeMutant } from '../mutant.js'
import { evictedHolder } from '../trials/eviction.js'
import { deadHolder, endOfLease, extendedLease, slowAnswer, slowRenewal } from '../trials/leases.js'
import { middleLeaves, secondAsks, tooManyPermits, turns } from '../trials/line.js'
import { lateRelease } from '../trials/release.js'
import { restartedMaster, splitVote } from '../trials/votes.js'
import { staleWriteToGate, staleWriteToRedis } from '../trials/writes.js'

const CORE = 'holdfast/src/core'
const REDIS = 'holdfast/src/backends/redis'

const setNx = { store: 'redis', query: 'recipe=set-nx', file: `${REDIS}/set-nx.lua` }
const line = { store: 'redis', query: 'recipe=line', file: `${REDIS}/line.lua` }
const redlock = { store: 'redis-masters' }

export const REDIS_MUTANTS: readonly RecipeMutant[] = [
  {
    ...setNx,
    name: 'set-nx: release whoever has the key',
    find: 'local function release(key, at)\n  local held = own(key, ARGV[at])',
    replace: "local function release(key, at)\n  local held = parse(call('GET', key) or '')",
    trial: lateRelease,
    expects: 'overlap',
  },
  {
    ...setNx,
    name: 'set-nx: renewal answered, but not written',
    find: "if lease > call('PTTL', key) then call('PEXPIRE', key, text(lease)) end\n  return '1'",
    replace: "return '1'",
    trial: extendedLease,
    expects: 'overlap',
  },
  {
    ...setNx,
    name: 'set-nx: renewal without a look at the key',
    find: "(fence ~= '-' and held.fence ~= fence) then return '0' end",
    replace: "(fence ~= '-' and held.fence ~= fence) then return '1' end",
    trial: evictedHolder,
    expects: 'overlap',
  },
  {
    ...line,
    name: 'line: let in without counting',
    find: 'local fits = count == ahead and line.sum + claim.weight <= claim.limit',
    replace: 'local fits = true',
    trial: secondAsks,
    expects: 'overlap',
  },
  {
    ...line,
    name: 'line: all who wait are told when one leaves',
    find: 'announce(line.entries, admitted_count(line.entries, line.limit), line.was_admitted)',
    replace: 'announce(line.entries, #line.entries, line.was_admitted)',
    trial: middleLeaves,
    expects: 'overlap',
  },
  {
    ...line,
    name: 'line: fence not raised',
    find: 'if last + 1 > CLOCK then fence = last + 1 end',
    replace: 'fence = tonumber(last)',
    trial: turns,
    expects: 'fence-reused',
  },
  {
    ...line,
    name: 'line: every weight counted as one',
    find: 'if shape == asked and sum + weight <= limit and',
    replace: 'if shape == asked and sum + 1 <= limit and',
    trial: tooManyPermits,
    expects: 'too-many-permits',
  },
  {
    ...line,
    name: 'line: claims that have expired stay',
    find: 'if entry.expires > NOW then',
    replace: 'if entry.expires > 0 then',
    trial: deadHolder,
    expects: 'stuck-waiter',
  },
  {
    ...line,
    name: 'line: renewal of a claim that is gone',
    find: "if not numbers then return '0' end",
    replace: "if not numbers then return '1' end",
    trial: evictedHolder,
    expects: 'overlap',
  },
  {
    ...redlock,
    name: 'redlock: half of the masters are enough',
    file: `${REDIS}/votes.ts`,
    find: 'return Math.floor(nodes / 2) + 1',
    replace: 'return Math.floor(nodes / 2)',
    trial: splitVote,
    expects: 'overlap',
  },
  {
    ...redlock,
    name: 'redlock: a master votes right after a restart',
    file: `${REDIS}/redlock-backend.ts`,
    find: 'if (waitMs === null || waitMs > 0) return',
    replace: 'if (waitMs === null) return',
    trial: restartedMaster,
    expects: 'overlap',
  },
  {
    ...line,
    name: 'guard of Redis: fences not compared',
    file: `${REDIS}/guard.lua`,
    find: "if highest and is_lower(fence, highest) then return { '0', highest } end",
    replace: '',
    trial: staleWriteToRedis,
    expects: 'stale-write-accepted',
  },
  {
    ...line,
    name: 'gate: fences not compared',
    file: 'holdfast/src/fencing/gate.ts',
    find: 'if (highest !== undefined && fence < highest) throw',
    replace: 'if (highest !== undefined && fence < 0n) throw',
    trial: staleWriteToGate,
    expects: 'stale-write-accepted',
  },
  {
    ...line,
    name: 'core: lease counted from the reply',
    file: `${CORE}/acquire.ts`,
    find: 'this.#place(verdict, sentAt, awake)',
    replace: 'this.#place(verdict, runtime.clock.monotonicMs(), awake)',
    trial: slowAnswer,
    expects: 'overlap',
  },
  {
    ...line,
    name: 'core: renewal counted from the reply',
    file: `${CORE}/keeper.ts`,
    find: 'standing.confirmed(sentAt, asked, awake)',
    replace: 'standing.confirmed(this.#runtime.clock.monotonicMs(), asked, awake)',
    trial: slowRenewal,
    expects: 'overlap',
  },
  {
    ...line,
    name: 'core: holder not told that its lease is over',
    file: `${CORE}/keeper.ts`,
    find: "if (standing.state === 'held' && now >= standing.endsAt) {",
    replace: "if (standing.state === 'held' && now < 0) {",
    trial: endOfLease,
    expects: 'abort-late',
  },
]
