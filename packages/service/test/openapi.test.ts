/** The description of the API: it is valid, complete, and what the service really does. */

import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RunningService, startService } from './security/running-service.js'

interface Operation {
  readonly summary?: string
  readonly operationId?: string
  readonly tags?: readonly string[]
  readonly responses: Readonly<Record<string, { readonly content?: object }>>
}

let service: RunningService
let document: { openapi: string; paths: Record<string, Record<string, Operation>> }

beforeAll(async () => {
  service = await startService()
  document = (await service.get('/openapi.json')).json as never
})

afterAll(() => service.close())

function operations(): [string, Operation][] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, Operation] => [
      `${method.toUpperCase()} ${path}`,
      operation,
    ]),
  )
}

describe('the OpenAPI document', () => {
  it('is valid', async () => {
    const result = await new Validator().validate(structuredClone(document))
    expect(result.errors).toBeUndefined()
    expect(result.valid).toBe(true)
    expect(document.openapi).toBe('3.1.0')
  })

  it('is found invalid when it is not', async () => {
    const broken = { ...structuredClone(document), paths: { 'no-slash': { fetch: 7 } } }
    expect((await new Validator().validate(broken)).valid).toBe(false)
  })

  it('has every route of the API', () => {
    const known = operations().map(([name]) => name)
    for (const wanted of [
      'POST /v1/locks/{name}/acquire',
      'POST /v1/locks/{name}/renew',
      'POST /v1/locks/{name}/release',
      'POST /v1/locks/{name}/break',
      'POST /v1/renew',
      'GET /v1/locks',
      'GET /v1/locks/{name}',
      'GET /v1/locks/{name}/history',
      'GET /v1/deadlocks',
      'GET /v1/events',
      'GET /v1/store',
      'POST /v1/tokens/issue',
      'POST /v1/tokens/consume',
      'POST /v1/records/claim',
      'GET /metrics',
      'GET /healthz',
      'GET /readyz',
    ]) {
      expect(known).toContain(wanted)
    }
  })

  it('says of every route what it is for and what it may answer', () => {
    for (const [name, { summary, tags, responses }] of operations()) {
      expect(summary, name).toBeTruthy()
      expect(tags, name).toHaveLength(1)
      const statuses = Object.keys(responses)
      expect(statuses.filter((status) => status.startsWith('2')).length, name).toBeGreaterThan(0)
      for (const status of ['400', '401', '403', '421', '429', '503'])
        expect(statuses, name).toContain(status)
      for (const status of statuses.filter((each) => each >= '400')) {
        expect(Object.keys(responses[status]?.content ?? {}), `${name} ${status}`).toEqual([
          'application/problem+json',
        ])
      }
    }
  })

  it('has no two operations of one name', () => {
    const names = operations().map(([, { operationId }]) => operationId)
    expect(new Set(names).size).toBe(names.length)
  })

  it('has a page that shows it, and runs nothing inline', async () => {
    const page = await service.get('/docs/static/index.html')
    const { text, headers } = page.status === 200 ? page : await service.get('/docs/')
    expect(headers['content-security-policy']).toContain("script-src 'self'")
    expect(text).not.toMatch(/<script(?![^>]*\bsrc=)[^>]*>[^<]*\S/)
    expect((await service.get('/docs/json')).json).toEqual(document)
  })
})
