/** Looks for what breaks locks in how memcached is set up. Nothing is changed, and no lock is touched. */

import type { Finding } from '../../core/doctor.js'
import type { ProbeRuntime } from '../shared/doctor/findings.js'
import { measureLatency } from '../shared/doctor/timing.js'
import { parseMemcachedUrl } from './address.js'
import { MemcachedClient } from './client.js'
import { checkFacts, checkTransport, type Facts } from './doctor/checks.js'
import { refusal } from './errors.js'
import { addressOf, openMemcached } from './open.js'
import { statsIn } from './wire.js'

/** Generous: an examination that gives up early finds nothing. */
const ANSWER_MS = 10_000

/** Examines what a URL for `connect()` leads to. Rejects where nothing can be found out, because nobody answers. */
export async function examineMemcachedUrl(url: string, { clock }: ProbeRuntime): Promise<Finding[]> {
  // What `connect()` would refuse, an option that is misspelt for one, is refused here in the same words.
  const backend = await openMemcached(url)
  await backend.close()
  const parsed = parseMemcachedUrl(url)
  const client = new MemcachedClient(await addressOf(parsed), { requestMs: ANSWER_MS })
  try {
    const facts = await factsOf(client)
    return [
      ...checkTransport(parsed),
      ...checkFacts(facts),
      ...(await measureLatency(() => client.request('mn\r\n', 'meta'), clock)),
    ]
  } finally {
    client.close()
  }
}

async function factsOf(client: MemcachedClient): Promise<Facts> {
  const { version, settings } = await client.greet()
  const answer = await client.request('stats\r\n', 'list')
  if (answer.kind !== 'list') throw refusal(answer.kind === 'line' ? answer.text : '')
  return { version, settings, stats: statsIn(answer.lines) }
}
