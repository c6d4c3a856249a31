/** The service as a user starts it. */

import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { Bench, type Running, requireBuild } from './command.js'

const bench = new Bench()
const ANY_PORT = ['--listen', '127.0.0.1:0']

beforeAll(requireBuild)
afterAll(() => bench.clear())

async function addressOf(running: Running): Promise<string> {
  await running.prints('Three things to try')
  return /http:\/\/[\d.]+:\d+/.exec(running.stdout)?.[0] ?? ''
}

async function post(url: string, body: object): Promise<{ status: number; json: Record<string, unknown> }> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: response.status, json: (await response.json()) as Record<string, unknown> }
}

describe('holdfast serve', () => {
  it('serves the store, says where and what to try, and stops in order', async () => {
    const running = bench.start(['serve', ...ANY_PORT])
    const url = await addressOf(running)
    expect(running.stdout).toContain(`curl -X POST ${url}/v1/locks/deploy/acquire`)
    expect(running.stdout).toContain(`holdfast ls --url ${url}`)
    expect(await (await fetch(url)).text()).toContain('<!doctype html>')
    expect((await post(`${url}/v1/locks/a/acquire`, { note: 'over HTTP' })).status).toBe(200)
    expect((await bench.inspect('a')).holders).toMatchObject([{ note: 'over HTTP' }])
    const { stdout } = await bench.holdfast(['ls', '--url', url])
    expect(stdout).toContain('mutex')
    const waiting = post(`${url}/v1/locks/a/acquire`, { waitMs: 60_000 })
    await until('it waits', async () => (await bench.inspect('a')).waiters.length === 1)
    running.process.kill('SIGTERM')
    expect(await waiting).toMatchObject({ status: 503, json: { code: 'DRAINING' } })
    expect(await running.ended).toMatchObject({ exitCode: 0, stderr: '' })
    const { holders, waiters } = await bench.inspect('a')
    expect([holders.length, waiters.length]).toEqual([1, 0])
  })

  it('fills itself with living locks when asked to, and leaves nothing behind', async () => {
    const running = bench.start(['serve', '--demo', ...ANY_PORT], { HOLDFAST_URL: '' })
    const url = await addressOf(running)
    const seen = new Set<string>()
    await until('several kinds are seen', async () => {
      const response = await fetch(`${url}/v1/locks`)
      const { locks } = (await response.json()) as { locks: { shape: { kind: string } }[] }
      for (const { shape } of locks) seen.add(shape.kind)
      return seen.size === 3
    })
    running.process.kill('SIGINT')
    expect(await running.ended).toMatchObject({ exitCode: 0, stderr: '' })
  })

  it('plays in the memory of the process, whatever store the environment names', async () => {
    const production = `sqlite:${join(bench.folder, 'production.db')}`
    const list = async (): Promise<string> =>
      (await bench.holdfast(['ls', '--json', '--url', production])).stdout
    const running = bench.start(['serve', '--demo', ...ANY_PORT], { HOLDFAST_URL: production })
    const url = await addressOf(running)
    await until('somebody plays', async () => {
      const { locks } = (await (await fetch(`${url}/v1/locks`)).json()) as { locks: unknown[] }
      return locks.length > 2
    })
    expect(await list()).toBe('[]\n')
    running.process.kill('SIGTERM')
    expect(await running.ended).toMatchObject({ exitCode: 0, stderr: '' })
    const asked = bench.start(['serve', '--demo', '--url', production, ...ANY_PORT])
    await until('somebody plays where the command says', async () => (await list()) !== '[]\n')
    asked.process.kill('SIGTERM')
    expect((await asked.ended).exitCode).toBe(0)
  })

  it('writes every request as a line of JSON when asked to, and no secret', async () => {
    const running = bench.start(['serve', '--json-log', ...ANY_PORT])
    const url = await addressOf(running)
    const id = 'a-secret-that-nobody-may-read'
    await post(`${url}/v1/locks/logged/acquire`, { id })
    await post(`${url}/v1/locks/logged/break`, { reason: 'to see it' })
    running.process.kill('SIGTERM')
    const { stderr, exitCode } = await running.ended
    expect(exitCode).toBe(0)
    const lines = stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(lines).toContainEqual(
      expect.objectContaining({
        kind: 'request',
        name: 'logged',
        status: 200,
        route: '/v1/locks/:name/acquire',
      }),
    )
    expect(lines).toContainEqual(expect.objectContaining({ kind: 'break', reason: 'to see it' }))
    expect(stderr).not.toContain(id)
  })

  it('says clearly that an address is taken', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve)
    })
    const address = server.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const { exitCode, stderr } = await bench.holdfast(['serve', '--listen', `127.0.0.1:${port}`])
    server.close()
    expect(exitCode).toBe(64)
    expect(stderr).toMatch(/^holdfast: 127\.0\.0\.1:\d+ is taken already; .*--listen.*\n$/)
  })

  it.each([
    ['beyond this machine', ['--listen', '0.0.0.0:0'], /other machines.*--auth.*--tls-cert.*--insecure/],
    ['with no port', ['--listen', '127.0.0.1'], /HOST:PORT/],
    ['with half of TLS', ['--tls-cert', 'x.pem'], /belong together/],
    [
      'with a missing certificate',
      ['--tls-cert', 'no.pem', '--tls-key', 'no.pem'],
      /cannot be read \(ENOENT\)/,
    ],
    ['with a missing auth file', ['--auth', join(bench.folder, 'none.json')], /auth file/],
  ])('refuses to listen %s', async (_what, args, said) => {
    const { exitCode, stderr } = await bench.holdfast(['serve', ...args])
    expect([exitCode, stderr]).toEqual([64, expect.stringMatching(said)])
    expect(stderr.split('\n')).toHaveLength(2)
  })

  it('says that the store is not available', async () => {
    const { exitCode, stderr } = await bench.holdfast(['serve', ...ANY_PORT, '--url', 'redis://127.0.0.1:1'])
    expect(exitCode).toBe(69)
    expect(stderr.split('\n')).toHaveLength(2)
  })
})
