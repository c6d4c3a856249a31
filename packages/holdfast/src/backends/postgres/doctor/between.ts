/** What stands between client and server, and whether notifications get through. */

import type { Finding } from '../../../core/doctor.js'
import { UnsupportedError } from '../../../core/errors.js'
import { finding, ok } from '../../shared/doctor/findings.js'
import type { SqlLink, Statement } from '../../sql/link.js'
import { refusePooler } from '../../sql/shared-session.js'
import { idOf, isDirect } from '../advisory.js'
import type { PgClient } from '../client.js'
import { Listener } from '../listen.js'
import { refusalOf, type Usage } from './facts.js'

/** `session`: a client keeps its connection. `transaction`: it gets another one for each transaction or statement. */
export type Pooler = 'none' | 'session' | 'transaction'

/** A pooler with other clients can give the same connection twice by chance, but not again and again. */
const TRIES = 3
/** What a pooler says to a transaction if it gives a connection for one statement only. */
const PROTOCOL_VIOLATION = '08P01'

const PID: Statement = { name: 'holdfast_doctor_pid', text: 'SELECT pg_backend_pid() AS pid' }
const QUEUE: Statement = {
  name: 'holdfast_doctor_queue',
  text: 'SELECT pg_notification_queue_usage() AS usage',
}
const NEARLY_FULL = 0.5

export async function poolerBefore(link: SqlLink<PgClient>): Promise<Pooler> {
  const session = await link.session()
  try {
    for (let tries = 0; tries < TRIES; tries += 1)
      await refusePooler(link, session, { idOf, name: 'postgres' })
    return (await isDirect(session)) ? 'none' : 'session'
  } catch (error) {
    if (error instanceof UnsupportedError || refusalOf(error) === PROTOCOL_VIOLATION) return 'transaction'
    throw error
  } finally {
    session.destroy()
  }
}

export function checkPooler(pooler: Pooler, usage: Usage): Finding[] {
  if (pooler === 'none') return [ok('pooler', 'none')]
  if (pooler === 'session') {
    const advice =
      'Each client of Holdfast keeps connections of it for as long as it runs. Give it enough of them.'
    return [finding('note', 'pooler', 'one that leaves each client its connection', advice)]
  }
  const found = 'one that gives each transaction another connection'
  if (usage.recipe !== 'rows') {
    const advice = 'Connect to the server itself, or use `recipe=rows&wake=poll&prepare=false`.'
    return [finding('danger', 'pooler', `${found}: locks of a connection do not survive it`, advice)]
  }
  if (usage.wake === 'notify') {
    const advice = 'Connect to the server itself, or use `wake=poll&prepare=false`.'
    return [finding('danger', 'pooler', `${found}: notifications do not arrive`, advice)]
  }
  if (usage.prepare) {
    const advice = 'Use `prepare=false`, unless the pooler keeps track of prepared statements.'
    return [finding('warning', 'pooler', `${found}: statements that were prepared are not found`, advice)]
  }
  return [ok('pooler', `${found}, which \`wake=poll\` and \`prepare=false\` are made for`)]
}

/** Whether the settings that connections from a URL begin with get past the pooler. */
export async function checkGreeting(link: SqlLink): Promise<Finding[]> {
  try {
    await link.run(PID)
    return []
  } catch (error) {
    if (refusalOf(error) !== PROTOCOL_VIOLATION) throw error
    const found = 'the pooler refuses the startup parameter `options`, so `connect()` with this URL fails'
    const advice = 'Set `ignore_startup_parameters = options` in its configuration, or give a ready pool.'
    return [finding('danger', 'pooler', found, advice)]
  }
}

/** Whether a notification comes back, over a channel that nobody else knows. */
export async function checkNotifications(link: SqlLink<PgClient>): Promise<Finding[]> {
  const listener = new Listener(link)
  try {
    await listener.open(ignore, ignore)
  } catch (error) {
    if (!(error instanceof UnsupportedError)) throw error
    const advice = 'Connect to the server itself, or use `wake=poll`.'
    return [finding('danger', 'notifications', 'do not arrive, so `connect()` refuses this', advice)]
  } finally {
    await listener.close()
  }
  const usage = Number((await link.run(QUEUE)).rows[0]?.['usage'])
  if (!(usage > NEARLY_FULL)) return [ok('notifications', 'arrive')]
  const found = `arrive, but their queue is ${Math.round(usage * 100)} % full: when it is full, nothing can be locked`
  const advice =
    'Somebody listens in a transaction that does not end. Look for it in `pg_stat_activity`, and end it.'
  return [finding('warning', 'notifications', found, advice)]
}

function ignore(): void {}
