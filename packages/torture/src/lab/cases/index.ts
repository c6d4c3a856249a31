import type { LabCase } from '../case.js'
import { consulAnyRelease } from './consul/any-release.js'
import { consulNoLockDelay } from './consul/no-lock-delay.js'
import { advisoryLockThroughPooler } from './databases/advisory-lock-through-pooler.js'
import { forUpdateMissingRow, forUpdateMissingRowMysql } from './databases/for-update-missing-row.js'
import { optimisticSecondPrecision } from './databases/optimistic-second-precision.js'
import { tableLockClientClock } from './databases/table-lock-client-clock.js'
import { tableLockNoExpiry } from './databases/table-lock-no-expiry.js'
import { etcdNestedNames } from './etcd/nested-names.js'
import { etcdNoRecheck } from './etcd/no-recheck.js'
import { checkThenInsert } from './idempotency/check-then-insert.js'
import { incrTokenForged } from './idempotency/incr-token-forged.js'
import { tokenDeletedAfter } from './idempotency/token-deleted-after.js'
import { tokenDeletedFirst } from './idempotency/token-deleted-first.js'
import { memcachedEvicted } from './memcached/evicted.js'
import { asyncReplica } from './redis/async-replica.js'
import { checkThenWrite } from './redis/check-then-write.js'
import { countedFromReply } from './redis/counted-from-reply.js'
import { delWithoutCheck } from './redis/del-without-check.js'
import { getSetClocks } from './redis/get-set-clocks.js'
import { noRenewal } from './redis/no-renewal.js'
import { pubSubWakeUp } from './redis/pub-sub-wake-up.js'
import { redlockClock } from './redis/redlock-clock.js'
import { redlockRestart } from './redis/redlock-restart.js'
import { renewalWithoutCheck } from './redis/renewal-without-check.js'
import { setNxThenExpire } from './redis/set-nx-then-expire.js'
import { thunderingPoll } from './redis/thundering-poll.js'
import { zookeeperHerd } from './zookeeper/herd.js'
import { zookeeperLostCreate } from './zookeeper/lost-create.js'
import { zookeeperOldSession } from './zookeeper/old-session.js'

/** Every case, in the order in which they are shown. */
export const CASES: readonly LabCase[] = [
  setNxThenExpire,
  getSetClocks,
  delWithoutCheck,
  noRenewal,
  renewalWithoutCheck,
  asyncReplica,
  redlockClock,
  redlockRestart,
  countedFromReply,
  checkThenWrite,
  thunderingPoll,
  pubSubWakeUp,
  forUpdateMissingRow,
  forUpdateMissingRowMysql,
  tableLockNoExpiry,
  tableLockClientClock,
  advisoryLockThroughPooler,
  optimisticSecondPrecision,
  zookeeperHerd,
  zookeeperOldSession,
  zookeeperLostCreate,
  etcdNoRecheck,
  etcdNestedNames,
  consulNoLockDelay,
  consulAnyRelease,
  memcachedEvicted,
  incrTokenForged,
  tokenDeletedAfter,
  tokenDeletedFirst,
  checkThenInsert,
]

export function caseNamed(name: string): LabCase {
  const found = CASES.find((each) => each.name === name)
  if (found === undefined) throw new Error(`There is no case '${name}' in the lab.`)
  return found
}
