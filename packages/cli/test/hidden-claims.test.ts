/** The lock service shows only the first claims of a lock that has very many. The commands must say so. */

import { randomBytes } from 'node:crypto'
import { connect } from 'holdfast'
import { createService, type Service } from 'holdfast-service'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Bench, requireBuild } from './command.js'

/** With notes of 1,024 characters, an answer of 256 KiB has room for about 75 of them. */
const HOLDERS = 100

describe('a lock that has more claims than the service shows', () => {
  const store = `memory:hidden-${randomBytes(6).toString('hex')}`
  let service: Service
  let url: string
  let bench: Bench

  beforeAll(async () => {
    requireBuild()
    service = await createService({ url: store, listen: { port: 0 } })
    url = await service.listen()
    const locks = await connect(store)
    const pool = locks.semaphore('pool', HOLDERS)
    for (let count = 0; count < HOLDERS; count += 1) {
      await pool.acquire({ note: '"'.repeat(1_024), renew: false, ttlMs: 3_600_000 })
    }
  })

  afterAll(() => service.close())

  beforeEach(() => {
    bench = new Bench()
  })

  afterEach(async () => {
    await bench.clear()
  })

  test('is counted as a whole by `show` and `ls`', async () => {
    const shown = await bench.holdfast(['show', 'pool', '--url', url])
    expect(shown.stdout).toMatch(
      /^"pool" {2}semaphore of 100, 100 holders, 0 waiters \(\d+ claims not shown\)\n/,
    )
    const listed = await bench.holdfast(['ls', '--url', url])
    expect(listed.stdout).toMatch(/\npool +semaphore of 100 +100 +0 /)
    expect(listed.stderr).toMatch(/^holdfast: the store does not show \d+ of the claims/)
  })

  test('is not searched by `break --ref` as if all were shown', async () => {
    const { stderr, exitCode } = await bench.holdfast([
      'break',
      'pool',
      '--ref',
      '000000000000',
      '--reason',
      'test',
      '--url',
      url,
    ])
    expect(stderr).toMatch(
      /there is no claim "000000000000" on "pool", but the store does not show \d+ of its/,
    )
    expect(exitCode).toBe(1)
  })

  test('is not reported as broken by `break` while holders are left', async () => {
    const args = ['break', 'pool', '--reason', 'test', '--yes', '--url', url]
    const first = await bench.holdfast(args)
    expect(first.stderr).toMatch(/\d+ more holders were not shown, and keep the lock/)
    expect(first.exitCode).toBe(1)
    const second = await bench.holdfast(args)
    expect(second.exitCode).toBe(0)
    const evicted = `${first.stdout}${second.stdout}`.match(/^Evicted holder/gm)
    expect(evicted).toHaveLength(HOLDERS)
  })
})
