/** Looks for what breaks locks in how PostgreSQL is set up. Nothing is changed, and no lock is touched. */

import type { Finding } from '../../core/doctor.js'
import type { ProbeRuntime } from '../shared/doctor/findings.js'
import { compareClocks, measureLatency } from '../shared/doctor/timing.js'
import { parseSqlUrl, poolMaxOf, type SqlAddress } from '../sql/address.js'
import { checkTransport, forExamination } from '../sql/doctor/address.js'
import { DEFAULT_PREFIX } from '../sql/identifiers.js'
import type { SqlLink, SqlRunner, Statement } from '../sql/link.js'
import type { PgClient } from './client.js'
import { checkGreeting, checkNotifications, checkPooler, poolerBefore } from './doctor/between.js'
import { checkFacts } from './doctor/checks.js'
import { factsOf, type Usage } from './doctor/facts.js'
import { checkTables } from './doctor/tables.js'
import { openPostgres, openPostgresLink, POSTGRES_SCHEME } from './open.js'

const PING: Statement = { name: 'holdfast_ping', text: 'SELECT 1 AS one' }
const TIME: Statement = {
  name: 'holdfast_doctor_time',
  text: 'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS ms',
}

/** Examines what a URL for `connect()` leads to. Rejects where nothing can be found out, because nobody answers. */
export async function examinePostgresUrl(url: string, runtime: ProbeRuntime): Promise<Finding[]> {
  // What `connect()` would refuse, an option that is misspelt for one, is refused here in the same words.
  const backend = await openPostgres(url)
  await backend.close()
  const address = parseSqlUrl(url, POSTGRES_SCHEME)
  const usage = usageOf(address)
  // As the server greets everybody, and without anything that a pooler might not bear.
  const link = await openPostgresLink(forExamination(address), false, null)
  try {
    const pooler = await poolerBefore(link)
    return [
      ...checkTransport(address),
      ...checkPooler(pooler, usage),
      ...(pooler === 'none' ? [] : await greeted(address)),
      ...(await examinePostgres(link, usage, runtime, pooler !== 'transaction')),
    ]
  } finally {
    await link.close()
  }
}

function usageOf(address: SqlAddress): Usage {
  const { options } = address
  return {
    recipe: (options.get('recipe') ?? 'rows') as Usage['recipe'],
    prefix: options.get('tablePrefix') ?? DEFAULT_PREFIX,
    wake: options.get('wake') === 'poll' ? 'poll' : 'notify',
    prepare: options.get('prepare') !== 'false',
    poolMax: poolMaxOf(address),
  }
}

async function greeted(address: SqlAddress): Promise<Finding[]> {
  const link = await openPostgresLink(address, false)
  try {
    return await checkGreeting(link)
  } finally {
    await link.close()
  }
}

async function examinePostgres(
  link: SqlLink<PgClient>,
  usage: Usage,
  { clock }: ProbeRuntime,
  mayListen: boolean,
): Promise<Finding[]> {
  const facts = await factsOf(link)
  const listens = usage.recipe === 'rows' && usage.wake === 'notify' && mayListen && !facts.isStandby
  return [
    ...checkFacts(facts, usage),
    ...(await checkTables(link, usage)),
    ...(listens ? await checkNotifications(link) : []),
    ...(await measureLatency(() => link.run(PING), clock)),
    ...(await compareClocks(() => serverMs(link), clock, 'Leases last longer than they should.')),
  ]
}

async function serverMs(runner: SqlRunner): Promise<number | null> {
  const ms = Number((await runner.run(TIME)).rows[0]?.['ms'])
  return Number.isFinite(ms) ? ms : null
}
