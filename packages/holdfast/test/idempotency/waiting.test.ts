import { spawn } from 'node:child_process'
import { getEventListeners, once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execPath } from 'node:process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { createIdempotency } from '../../src/idempotency.js'

const EXIT_MS = 120_000
const folder = await mkdtemp(join(tmpdir(), 'holdfast-waiting-'))
afterAll(() => rm(folder, { recursive: true, force: true }))

it('a call that waits leaves no listener on a signal that lives longer', async () => {
  await using idempotency = await createIdempotency(memoryRecords())
  const { signal } = new AbortController()
  for (const key of ['one', 'two']) {
    const target = { scope: { tenant: 't', operation: 'o' }, key }
    let finish: (value: string) => void = () => {}
    const first = idempotency.run<string>(
      target,
      () =>
        new Promise((resolve) => {
          finish = resolve
        }),
      { signal },
    )
    const second = idempotency.run<string>(target, () => 'ran twice', {
      inFlight: { waitMs: 60_000 },
      signal,
    })
    await until('the second call waits', () => getEventListeners(signal, 'abort').length === 1)
    finish('done')
    expect([await first, await second]).toMatchObject([{ replayed: false }, { replayed: true }])
    expect(getEventListeners(signal, 'abort')).toEqual([])
  }
})

describe('a call that waits for another one of the same process', () => {
  it.each([
    ['memory', 'memory:waiting'],
    ['SQLite', `sqlite:${join(folder, 'records.db')}`],
  ])('keeps the process alive until it has the result (%s)', async (_store, url) => {
    const script = fileURLToPath(new URL('./waiting-child.mjs', import.meta.url))
    const child = spawn(execPath, [script, url], { stdio: ['ignore', 'pipe', 'inherit'] })
    const timer = setTimeout(() => child.kill('SIGKILL'), EXIT_MS)
    const [said, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
    clearTimeout(timer)
    expect([said, code]).toEqual(['result true\n', 0])
  })
})
