// @module-tag secrets
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { DEADLINE_MS, makeTokens, pathOf, startService } from './running-service.js'

const POLL = { timeout: DEADLINE_MS, interval: 50 }

test('a token that is revoked while it waits gets nothing, and the lock goes to the next one', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-rights-'))
  const path = join(folder, 'auth.json')
  const all = [{ prefix: '', can: ['acquire', 'inspect'] as const }]
  const { auth, token } = makeTokens({ ops: all, guest: all })
  await writeFile(path, JSON.stringify(auth), { mode: 0o600 })
  const service = await startService({ auth: path })
  onTestFinished(async () => {
    await service.close()
    await rm(folder, { recursive: true, force: true })
  })
  const [ops, guest] = [{ token: token.ops }, { token: token.guest }]
  const held = await service.post(pathOf('a', 'acquire'), { ttlMs: 600_000 }, ops)
  const waiting = service.post(pathOf('a', 'acquire'), { ttlMs: 600_000, waitMs: 60_000 }, guest)
  const view = async () => (await service.get(pathOf('a'), ops)).json as { holders: []; waiters: [] }
  await expect.poll(async () => (await view()).waiters.length, POLL).toBe(1)

  await writeFile(path, JSON.stringify({ tokens: auth.tokens.filter(({ name }) => name === 'ops') }))
  await expect.poll(async () => (await service.get(pathOf('a'), guest)).status, POLL).toBe(401)
  await service.post(pathOf('a', 'release'), { claim: held.json['claim'] }, ops)

  const { status, json } = await waiting
  expect([status, json['code'], json['claim']]).toEqual([401, 'UNAUTHENTICATED', undefined])
  await expect.poll(async () => (await view()).holders.length, POLL).toBe(0)
})
