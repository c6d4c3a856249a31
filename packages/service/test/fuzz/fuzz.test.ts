import { Compile } from 'typebox/schema'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sizeOf } from '../../../../test/support/depth.js'
import { parseBody } from '../../src/security/json-body.js'
import { pathOf, type RunningService, startService } from '../security/running-service.js'
import { type FuzzRequest, makeRequest, type Operation, operationsOf } from './fuzz-requests.js'
import { type Memory, remember } from './plausible.js'
import { Random } from './random.js'
import { exchange, describe as inWords, type RawAnswer } from './raw-exchange.js'

/**
 * Sends the service requests that are made from its own document, and expects no answer of 500 and above, no hang, and
 * nothing that the document does not say. `HOLDFAST_FUZZ` is how many, `HOLDFAST_FUZZ_SEED` makes the same ones again. A deep
 * run draws a new seed each time.
 */

const COUNT = sizeOf('HOLDFAST_FUZZ', 2_500, 20_000)
const SEED = sizeOf('HOLDFAST_FUZZ_SEED', 1, Date.now() % 2 ** 32)
/** As many at a time. Requests about the same names meet each other. */
const LANES = 8

let service: RunningService
let operations: Operation[]
beforeAll(async () => {
  service = await startService()
  operations = operationsOf((await service.get('/openapi.json')).json)
})
afterAll(async () => {
  await service?.close()
})

interface Tally {
  readonly byStatus: Map<number, number>
  readonly faults: string[]
  /** Which operations were answered with success: those that never are were not really tried. */
  readonly succeeded: Set<string>
}

test(`${COUNT} requests from the document (HOLDFAST_FUZZ_SEED=${SEED})`, async () => {
  const random = new Random(SEED)
  const memory: Memory = { claims: new Map(), records: new Map(), tokens: new Map() }
  const tally: Tally = { byStatus: new Map(), faults: [], succeeded: new Set() }
  let sent = 0
  const lane = async (): Promise<void> => {
    while (sent < COUNT && tally.faults.length < 10) {
      sent += 1
      const index = sent
      const request = makeRequest(operations, memory, random)
      const answer = await exchange(service.port, request)
      const fault = judge(request, answer)
      if (fault !== null)
        tally.faults.push(`#${index} ${fault}: ${inWords(request)} → ${answer?.body.slice(0, 300)}`)
      note(tally, memory, request, answer)
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  const counts = [...tally.byStatus]
    .toSorted(([a], [b]) => a - b)
    .map(([status, count]) => `${status}: ${count}`)
  process.stderr.write(`fuzz: seed ${SEED}, ${sent} requests, answers ${counts.join(', ')}\n`)
  expect(tally.faults).toEqual([])
  expect(sent).toBe(COUNT)
  if (COUNT >= 2_000) {
    const never = operations.map(nameOf).filter((name) => !tally.succeeded.has(name))
    expect(never).toEqual([])
  }
  await expectAlive()
}, 1_800_000)

function nameOf({ method, path }: Operation): string {
  return `${method} ${path}`
}

function note(
  { byStatus, succeeded }: Tally,
  memory: Memory,
  { operation, body }: FuzzRequest,
  answer: RawAnswer | null,
): void {
  if (answer === null) return
  byStatus.set(answer.status, (byStatus.get(answer.status) ?? 0) + 1)
  if (operation === null || answer.status >= 300) return
  succeeded.add(nameOf(operation))
  if (body === null || answer.headers.get('content-type')?.startsWith('application/json') !== true) return
  const sent: unknown = parseBody(body)
  remember(memory, operation.path, sent as Record<string, unknown>, JSON.parse(answer.body))
}

/** What is wrong with an answer; null: nothing. */
function judge(request: FuzzRequest, answer: RawAnswer | null): string | null {
  // What is not HTTP any more, or asks for a tunnel, may be cut off.
  if (answer === null) return request.operation === null ? null : 'no answer'
  const { status, headers, body } = answer
  if (status >= 500) return `an answer of ${status}`
  if (headers.get('x-content-type-options') !== 'nosniff') return 'the headers are missing'
  if ([...headers.keys()].some((name) => name.startsWith('access-control-')))
    return 'another origin is let in'
  if (/node_modules|\.[jt]s:\d+:\d+|\bat \w+ \(/.test(body) && !/docs/.test(request.path))
    return 'a stack is shown'
  const type = headers.get('content-type')?.split(';')[0] ?? ''
  if (status >= 400 && body !== '' && type !== 'application/problem+json') return `${status} as ${type}`
  return request.operation === null ? null : undeclared(request.operation, answer, type)
}

const checks = new Map<string, (value: unknown) => string | null>()

function undeclared(operation: Operation, { status, body }: RawAnswer, type: string): string | null {
  const declared = operation.responses[status]
  if (declared === undefined) return `${status} is not declared`
  const schema = declared.content?.[type]?.schema
  if (schema === undefined)
    return type === 'text/event-stream' ? null : `${status} as ${type} is not declared`
  if (!type.endsWith('json')) return null
  const key = `${nameOf(operation)} ${status}`
  let check = checks.get(key)
  if (check === undefined) {
    const compiled = Compile(schema)
    check = (value) => (compiled.Check(value) ? null : JSON.stringify(compiled.Errors(value)[1].slice(0, 2)))
    checks.set(key, check)
  }
  const error = check(JSON.parse(body))
  return error === null ? null : `${status} is not as declared: ${error}`
}

/** It works as on its first day. */
async function expectAlive(): Promise<void> {
  expect((await service.get('/healthz')).status).toBe(200)
  expect((await service.get('/readyz')).status).toBe(200)
  const granted = await service.post(pathOf('after all', 'acquire'), { ttlMs: 30_000 })
  expect(granted.status).toBe(200)
  expect((await service.post(pathOf('after all', 'acquire'), {})).status).toBe(423)
  const released = await service.post(pathOf('after all', 'release'), { claim: granted.json['claim'] })
  expect(released.json).toEqual({ name: 'after all', outcome: 'released' })
  const { json } = await service.get('/v1/locks?limit=5000')
  const waiting = (json['locks'] as { waiters: unknown[] }[]).flatMap(({ waiters }) => waiters)
  expect(waiting.length).toBeLessThan(50)
}
