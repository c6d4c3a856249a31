/** A process of its own that holds a lock through the service and renews it, until it is killed. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'

/** The program is text, so that nothing has to be built before it can run. */
const PROGRAM = `
  const [url, name, ttl] = process.argv.slice(1)
  const ttlMs = Number(ttl)
  const post = async (verb, body) => {
    const headers = { 'content-type': 'application/json' }
    const path = url + '/v1/locks/' + encodeURIComponent(name) + '/' + verb
    const answer = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
    if (!answer.ok) throw new Error(verb + ': ' + answer.status + ' ' + await answer.text())
    return await answer.json()
  }
  const owner = { host: 'holder-host', pid: process.pid, client: 'holder' }
  const { claim } = await post('acquire', { ttlMs, owner, note: 'held by a process' })
  process.send('held')
  process.on('disconnect', () => process.exit(0))
  setInterval(() => post('renew', { claim }).catch(() => process.exit(1)), ttlMs / 4)
`

export async function startHolder(url: string, name: string, ttlMs: number): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM, url, name, String(ttlMs)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`The holder ended with ${String(code)} before it held anything.`)
  })
  await Promise.race([once(child, 'message'), ended])
  // It is killed by whoever asked for it.
  ended.catch(() => undefined)
  return child
}
