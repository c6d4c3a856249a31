import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { digestOfToken, mintToken } from '../src/security/bearer-tokens.js'
import { createService, type Service } from '../src/service.js'

const POLL = { timeout: 30_000 }
const JSON_TYPE = { 'content-type': 'application/json' }
const folder = await mkdtemp(join(tmpdir(), 'holdfast-metrics-'))
const token = mintToken()
const authorization = `Bearer ${token}`
let service: Service
let url: string

beforeAll(async () => {
  const auth = {
    tokens: [
      {
        name: 'ops',
        sha256: digestOfToken(token),
        rights: [{ prefix: '', can: ['acquire', 'inspect'] as const }],
      },
    ],
  }
  service = await createService({ url: `sqlite:${folder}/locks.db`, listen: { port: 0 }, auth })
  url = await service.listen()
})

afterAll(async () => {
  await service.close()
  await rm(folder, { recursive: true, force: true })
})

async function scrape(): Promise<string> {
  const answer = await fetch(`${url}/metrics`, { headers: { authorization } })
  expect(answer.status).toBe(200)
  return await answer.text()
}

function valueOf(text: string, series: string): number {
  const line = text.split('\n').find((one) => one.startsWith(`${series} `))
  return line === undefined ? 0 : Number(line.slice(series.length + 1))
}

function acquire(body: object, signal?: AbortSignal): Promise<Response> {
  const headers = { ...JSON_TYPE, authorization }
  const more = signal === undefined ? {} : { signal }
  return fetch(`${url}/v1/locks/very%2Fprivate/acquire`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
    ...more,
  })
}

describe('/metrics', () => {
  it('is for those who have a token', async () => {
    expect((await fetch(`${url}/metrics`)).status).toBe(401)
    expect(await scrape()).toContain(
      'holdfast_http_requests_total{method="GET",route="/metrics",status="401"}',
    )
  })

  it('counts requests by route and status, also those that were refused at the door', async () => {
    const route = 'method="POST",route="/v1/locks/:name/acquire"'
    expect((await acquire({})).status).toBe(200)
    expect((await acquire({})).status).toBe(423)
    const refused = await fetch(`${url}/v1/locks/very%2Fprivate/acquire`, {
      method: 'POST',
      headers: JSON_TYPE,
      body: '{}',
    })
    expect(refused.status).toBe(401)
    expect((await fetch(`${url}/very/private`, { headers: { authorization } })).status).toBe(404)
    const text = await scrape()
    for (const status of [200, 423, 401]) {
      expect(valueOf(text, `holdfast_http_requests_total{${route},status="${status}"}`), `${status}`).toBe(1)
    }
    expect(valueOf(text, 'holdfast_http_requests_total{method="GET",route="none",status="404"}')).toBe(1)
    expect(valueOf(text, `holdfast_http_request_seconds_count{${route}}`)).toBe(3)
    // The scrape itself.
    expect(valueOf(text, 'holdfast_http_open_requests')).toBe(1)
    expect(text).not.toContain('private')
    expect(text).not.toContain(token)
  })

  it('counts who hangs up while waiting, and forgets them', async () => {
    const controller = new AbortController()
    const waiting = acquire({ waitMs: 60_000 }, controller.signal)
    await expect.poll(async () => valueOf(await scrape(), 'holdfast_http_open_requests'), POLL).toBe(2)
    controller.abort()
    await expect(waiting).rejects.toThrow()
    await expect.poll(async () => valueOf(await scrape(), 'holdfast_http_open_requests'), POLL).toBe(1)
    const hungUp = 'holdfast_http_hang_ups_total{method="POST",route="/v1/locks/:name/acquire"}'
    expect(valueOf(await scrape(), hungUp)).toBe(1)
  })

  it('speaks OpenMetrics with those who ask for it', async () => {
    const accept = 'application/openmetrics-text;version=1.0.0,text/plain;q=0.5'
    const answer = await fetch(`${url}/metrics`, { headers: { authorization, accept } })
    expect(answer.headers.get('content-type')).toBe(
      'application/openmetrics-text; version=1.0.0; charset=utf-8',
    )
    expect(await answer.text()).toMatch(/# EOF\n$/)
  })
})
