/**
 * Whether this user may do what the recipes do. Every command is really sent, in a form that changes nothing: that needs
 * no rights of its own, unlike `ACL DRYRUN`, and works with every version and behind every proxy.
 */

import type { Finding } from '../../../core/doctor.js'
import { finding, ok } from '../../shared/doctor/findings.js'
import type { RedisLink } from '../link.js'
import type { Usage } from './checks.js'
import { ask, type ProbeRuntime, type Refusal } from './probe.js'

export interface RightsUsage extends Usage {
  readonly prefix: string
}

/** What a right is for, which says how bad it is to lack it. */
type Need = 'lock' | 'list' | 'push' | 'queue' | 'confirm' | 'restart'

interface Right {
  readonly need: Need
  readonly command: readonly string[]
}

/** No lock can have this name, because names have no control characters: so nothing of anybody's is touched. */
const NOBODYS_NAME = '\u0000doctor'
const UNKNOWN_SCRIPT = '0'.repeat(40)
const NO_SCRIPT = 'return 1'

export async function checkRights(
  link: RedisLink,
  usage: RightsUsage,
  runtime: ProbeRuntime,
): Promise<Finding[]> {
  const key = usage.prefix + NOBODYS_NAME
  const channel = `${usage.prefix}push:doctor`
  const missing: Missing[] = []
  for (const { need, command } of rightsFor(usage, key, channel)) {
    const answer = await ask(runtime, () => link.send(key, command))
    const reason = 'refusal' in answer ? reasonOf(answer.refusal) : null
    if (reason !== null) missing.push({ need, command: command[0] as string, reason })
  }
  if (usage.recipe === 'line') {
    const reason = await subscribing(link, channel, runtime)
    if (reason !== null) missing.push({ need: 'lock', command: 'SUBSCRIBE', reason })
  }
  const rules = rulesFor(usage, link.keyPrefix)
  return missing.length === 0 ? [ok('rights', 'all that are needed')] : findingsOf(missing, rules)
}

function rightsFor({ recipe, waitReplicas, prefix }: RightsUsage, key: string, channel: string): Right[] {
  const right = (need: Need, ...command: string[]): Right => ({ need, command })
  const all = [
    right('lock', 'EVALSHA', UNKNOWN_SCRIPT, '1', key),
    right('lock', 'EVAL', NO_SCRIPT, '1', key),
    right('lock', 'TIME'),
    right('lock', 'GET', key),
    // Both at once make no sense, which is noticed after the rights and before anything is written.
    right('lock', 'SET', key, '', 'NX', 'XX'),
    right('list', 'SCAN', '0', 'MATCH', `${prefix}${NOBODYS_NAME}`, 'COUNT', '1'),
  ]
  const need = recipe === 'line' ? 'queue' : 'lock'
  all.push(right(need, 'PTTL', key), right(need, 'PEXPIRE', key, '1000'), right(need, 'DEL', key))
  if (recipe === 'line') all.push(right('push', 'PUBLISH', channel, ''), ...sortedSetRights(key))
  if (recipe === 'redlock') all.push(right('restart', 'INFO', 'server'))
  if (waitReplicas > 0) all.push(right('confirm', 'WAIT', '0', '1'), right('confirm', 'CLIENT', 'INFO'))
  return all
}

/** What long queues need. None of it changes anything of a key that is not there. */
function sortedSetRights(key: string): Right[] {
  const commands = [
    // Both at once make no sense, as above.
    ['ZADD', key, 'NX', 'XX', '0', 'h'],
    ['ZREM', key, 'h'],
    ['ZREMRANGEBYSCORE', key, '0', '0'],
    ['ZRANGE', key, '0', '0'],
    ['ZMSCORE', key, 'h'],
    ['ZRANK', key, 'h'],
    ['ZCARD', key],
  ]
  return commands.map((command) => ({ need: 'queue', command }))
}

async function subscribing(link: RedisLink, channel: string, runtime: ProbeRuntime): Promise<Reason | null> {
  const answer = await ask(runtime, () => link.subscribe(channel, { message: ignore, restored: ignore }))
  if ('refusal' in answer) return reasonOf(answer.refusal)
  await (answer.value as { close(): Promise<void> }).close()
  return null
}

function ignore(): void {}

type Reason = 'command' | 'key' | 'channel' | 'unknown'

interface Missing {
  readonly need: Need
  readonly command: string
  readonly reason: Reason
}

/** Null for a refusal that has nothing to do with rights; other checks speak of those. */
function reasonOf({ code, message }: Refusal): Reason | null {
  if (code === 'ERR') return /unknown command|unknown subcommand/i.test(message) ? 'unknown' : null
  if (code !== 'NOPERM') return null
  if (/\bkeys?\b/.test(message)) return 'key'
  return /\bchannels?\b/.test(message) ? 'channel' : 'command'
}

const CONSEQUENCE: Record<Need, { readonly level: 'danger' | 'warning'; readonly text: string }> = {
  lock: { level: 'danger', text: 'nothing can be locked' },
  confirm: { level: 'danger', text: '`waitReplicas` cannot work' },
  push: {
    level: 'warning',
    text: 'grants are not pushed, so those who wait find out by asking, about once a second',
  },
  queue: {
    level: 'warning',
    text: 'a queue of many waiters is slow, because it cannot be kept as a sorted set',
  },
  restart: {
    level: 'warning',
    text: 'a server that was restarted, and has forgotten its locks, is not recognised',
  },
  list: { level: 'warning', text: 'locks cannot be listed' },
}

function findingsOf(missing: readonly Missing[], rules: string): Finding[] {
  return (Object.keys(CONSEQUENCE) as Need[]).flatMap((need) => {
    const lacking = missing.filter((each) => each.need === need)
    if (lacking.length === 0) return []
    const { level, text } = CONSEQUENCE[need]
    const isAbsent = lacking.every(({ reason }) => reason === 'unknown')
    const advice = isAbsent
      ? 'The server, or a proxy before it, does not know them. Use another one.'
      : `Give the user ${rules}`
    return [finding(level, 'rights', `${lacking.map(wordFor).join(', ')} refused: ${text}`, advice)]
  })
}

function wordFor({ command, reason }: Missing): string {
  switch (reason) {
    case 'key':
      return `${command} (on these keys)`
    case 'channel':
      return `${command} (on these channels)`
    case 'unknown':
      return `${command} (unknown)`
    case 'command':
      return command
  }
}

/** What to put behind `ACL SETUSER name`. */
export function rulesFor(usage: RightsUsage, keyPrefix: string): string {
  const commands = new Set(
    rightsFor(usage, '', '').map(({ command: [name, part] }) => ruleOf(name as string, part)),
  )
  if (usage.recipe === 'line') commands.add('+subscribe').add('+unsubscribe')
  const channels = usage.recipe === 'line' ? ` &${usage.prefix}push:*` : ''
  return `\`~${keyPrefix}${usage.prefix}*${channels} ${[...commands].join(' ')}\``
}

function ruleOf(command: string, part: string | undefined): string {
  return `+${command}${command === 'CLIENT' ? `|${part}` : ''}`.toLowerCase()
}
