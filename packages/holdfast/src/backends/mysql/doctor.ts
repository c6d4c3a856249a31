/** Looks for what breaks locks in how MySQL or MariaDB is set up. Nothing is changed, and no lock is touched. */

import type { Finding } from '../../core/doctor.js'
import { UnsupportedError } from '../../core/errors.js'
import { finding, ok, type ProbeRuntime } from '../shared/doctor/findings.js'
import { compareClocks, measureLatency } from '../shared/doctor/timing.js'
import { parseSqlUrl, poolMaxOf, type SqlAddress } from '../sql/address.js'
import { checkTransport, forExamination } from '../sql/doctor/address.js'
import { DEFAULT_PREFIX } from '../sql/identifiers.js'
import type { SqlLink, SqlRunner, Statement } from '../sql/link.js'
import { refusePooler } from '../sql/shared-session.js'
import { checkFacts } from './doctor/checks.js'
import { factsOf, type Usage } from './doctor/facts.js'
import { checkTables } from './doctor/tables.js'
import { idOf } from './get-lock.js'
import { MYSQL_SCHEME, openMysql, openMysqlLink } from './open.js'

const PING: Statement = { name: 'holdfast_ping', text: 'SELECT 1 AS one' }
const TIME: Statement = {
  name: 'holdfast_doctor_time',
  text: "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS us",
}

/** Examines what a URL for `connect()` leads to. Rejects where nothing can be found out, because nobody answers. */
export async function examineMysqlUrl(url: string, { clock }: ProbeRuntime): Promise<Finding[]> {
  // What `connect()` would refuse, an option that is misspelt for one, is refused here in the same words.
  const backend = await openMysql(url)
  await backend.close()
  const address = parseSqlUrl(url, MYSQL_SCHEME)
  const usage = usageOf(address)
  const link = await openMysqlLink(forExamination(address))
  try {
    return [
      ...checkTransport(address),
      ...(await checkPooler(link, usage)),
      ...checkFacts(await factsOf(link), usage),
      ...(await checkTables(link, usage)),
      ...(await measureLatency(() => link.run(PING), clock)),
      ...(await compareClocks(() => serverMs(link), clock, 'Leases last longer than they should.')),
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
    poolMax: poolMaxOf(address),
  }
}

/** The steps of `rows` are one statement each, so it does not matter to them which connection they come over. */
async function checkPooler(link: SqlLink, { recipe }: Usage): Promise<Finding[]> {
  if (recipe === 'rows') return []
  const session = await link.session()
  try {
    await refusePooler(link, session, { idOf, name: 'mysql' })
    return [ok('pooler', 'none that shares connections')]
  } catch (error) {
    if (!(error instanceof UnsupportedError)) throw error
    const found =
      'one that gives each transaction another connection: locks of a connection do not survive it'
    return [finding('danger', 'pooler', found, 'Connect to the server itself, or use `recipe=rows`.')]
  } finally {
    session.destroy()
  }
}

async function serverMs(runner: SqlRunner): Promise<number | null> {
  const us = Number((await runner.run(TIME)).rows[0]?.['us'])
  return Number.isFinite(us) ? us / 1_000 : null
}
