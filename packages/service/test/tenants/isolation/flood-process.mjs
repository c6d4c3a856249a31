// @ts-check
// A tenant that asks for as much as it may have, and for more. It floods from `start` to `stop`, told line by line.

import { Agent, request } from 'node:http'
import { createInterface } from 'node:readline'

/** @typedef {{port: number, token: string, claims: number, waiters: number, streams: number, lists: number, lanes: number}} Plan */

/** @type {Plan} */
const plan = JSON.parse(process.argv[2] ?? '{}')
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })
const NOTE = '"'.repeat(1_024)
/** @type {Record<string, number>} */
let answers = {}
let largest = 0
let isOn = false
/** Grows with each start: what belongs to an earlier one ends. */
let round = 0
/** @type {Set<import('node:http').ClientRequest>} */
const open = new Set()

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {boolean} [unread] Leave the answer unread.
 * @returns {Promise<number>}
 */
function ask(method, path, body, unread = false) {
  return new Promise((resolve) => {
    const bytes = body === undefined ? undefined : JSON.stringify(body)
    const headers = {
      authorization: `Bearer ${plan.token}`,
      ...(bytes === undefined
        ? {}
        : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }),
    }
    const asked = request(
      { host: '127.0.0.1', port: plan.port, method, path, headers, agent: unread ? false : agent },
      (response) => {
        const status = response.statusCode ?? 0
        answers[status] = (answers[status] ?? 0) + 1
        if (unread && status === 200) return
        let size = 0
        response.on('data', (chunk) => {
          size += chunk.length
        })
        response.on('close', () => {
          largest = Math.max(largest, size)
          open.delete(asked)
          resolve(status)
        })
      },
    )
    open.add(asked)
    asked.on('error', () => {
      open.delete(asked)
      resolve(0)
    })
    asked.end(bytes)
  })
}

/** Pauses while it is refused, so that what it does is what the service lets it do, and not a busy loop of its own. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 5))

/**
 * @param {number} count
 * @param {(index: number) => Promise<number | void>} act
 */
function lanes(count, act) {
  const mine = round
  for (let lane = 0; lane < count; lane += 1) {
    void (async () => {
      for (let index = lane; isOn && mine === round; index += count) {
        if ((await act(index)) === 429) await pause()
      }
    })()
  }
}

const lock = (/** @type {string} */ name, /** @type {string} */ action) =>
  `/v1/locks/${encodeURIComponent(name)}/${action}`

function start() {
  isOn = true
  round += 1
  const shape = { mode: 'semaphore', limit: plan.claims * 2 }
  // Claims with long notes, on few names and on many.
  lanes(plan.lanes, (index) => {
    if (index >= plan.claims) return ask('GET', `/v1/locks/${encodeURIComponent('flood/one')}`)
    const name = index % 2 === 0 ? 'flood/one' : `flood/${index}`
    return ask('POST', lock(name, 'acquire'), { ...shape, ttlMs: 60_000, note: NOTE })
  })
  // Waiters, each until it is refused or told to come back.
  void ask('POST', lock('flood/held', 'acquire'), { ttlMs: 60_000 })
  lanes(plan.waiters, () => ask('POST', lock('flood/held', 'acquire'), { waitMs: 20_000, note: NOTE }))
  lanes(plan.lists, () => ask('GET', '/v1/locks?limit=5000'))
  for (let stream = 0; stream < plan.streams; stream += 1) void ask('GET', '/v1/events', undefined, true)
  // What is refused.
  lanes(2, () => ask('POST', lock('other/one', 'acquire'), {}))
  lanes(2, () => ask('POST', lock('flood/one', 'acquire'), { ...shape, permits: shape.limit }))
  lanes(2, () => ask('POST', lock('flood/one', 'acquire'), { ...shape, note: 'n'.repeat(2_000) }))
}

function stop() {
  isOn = false
  for (const asked of open) asked.destroy()
  open.clear()
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line === 'start') start()
  if (line === 'stop') stop()
  if (line === 'end') process.exit(0)
  console.log(JSON.stringify({ answers, largest, open: open.size }))
  if (line === 'stop') answers = {}
}
