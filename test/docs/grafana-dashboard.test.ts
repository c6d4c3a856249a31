/** The dashboard of the docs, against what the service and the library really show. */

import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'holdfast'
import { connectIdempotency } from 'holdfast/idempotency'
import { createService, type Service } from 'holdfast-service'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ParsedFamily, parseExposition } from '../../packages/holdfast/test/observe/exposition-parser.js'

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets?: readonly {
    readonly expr: string
    readonly legendFormat: string
    readonly refId: string
  }[]
}

interface Dashboard {
  readonly title: string
  readonly uid: string
  readonly schemaVersion: number
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: unknown }[] }
}

const dashboard = JSON.parse(
  await readFile(new URL('../../docs/grafana-dashboard.json', import.meta.url), 'utf8'),
) as Dashboard

/** What every scrape adds. */
const OF_PROMETHEUS = new Set(['job', 'instance', '__name__', 'le'])

const shown = dashboard.panels.filter(({ type }) => type !== 'row')
const targets = shown.flatMap(({ title, targets = [] }) => targets.map((target) => ({ title, ...target })))
const folder = await mkdtemp(join(tmpdir(), 'holdfast-grafana-'))
let service: Service
let families: Map<string, ParsedFamily>

beforeAll(async () => {
  service = await createService({ url: `sqlite:${folder}/locks.db`, listen: { port: 0 } })
  const url = await service.listen()
  // The library in the same process, so that its numbers are on the same page.
  const locks = await connect('memory:')
  const hold = await locks.mutex('grafana').acquire()
  await locks.mutex('grafana').tryAcquire()
  await hold.extend()
  await hold.release()
  await locks.close()
  const idempotency = await connectIdempotency('memory:')
  await idempotency.run({ scope: { tenant: 't', operation: 'o' }, key: 'k' }, () => 1)
  await idempotency.close()
  const acquired = await fetch(`${url}/v1/locks/private%2Fname/acquire`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  })
  expect(acquired.status).toBe(200)
  expect((await fetch(`${url}/private/path`)).status).toBe(404)
  const scrape = await fetch(`${url}/metrics`)
  expect(scrape.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  const text = await scrape.text()
  expect(text).not.toContain('private')
  families = parseExposition(text, 'prometheus')
})

afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

/** The metrics that an expression names, each with the labels that it asks for. */
function usesOf(expr: string): { readonly metric: string; readonly labels: readonly string[] }[] {
  return [...expr.matchAll(/\b(holdfast_[a-z_]+)\{([^}]*)\}/g)].map(([, metric = '', inside = '']) => ({
    metric,
    labels: [...inside.matchAll(/([a-z_]+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label),
  }))
}

/** The labels that a sum is split by, and those that a legend shows. */
function groupedBy({ expr, legendFormat }: { expr: string; legendFormat: string }): string[] {
  const by = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(/\s*,\s*/))
  return [...by, ...[...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label)]
}

function familyOf(metric: string): ParsedFamily | undefined {
  const histogram = families.get(metric.replace(/_(bucket|sum|count)$/, ''))
  return families.get(metric) ?? (histogram?.type === 'histogram' ? histogram : undefined)
}

describe('the Grafana dashboard', () => {
  it('is one of the present schema, with panels that stand side by side', () => {
    expect(dashboard).toMatchObject({ title: 'Holdfast', uid: 'holdfast' })
    expect(dashboard.schemaVersion).toBeGreaterThanOrEqual(39)
    const ids = dashboard.panels.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    const cells = new Set<string>()
    for (const { title, gridPos } of dashboard.panels) {
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24)
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(cells.has(`${x} ${y}`), `${title} stands on another panel`).toBe(false)
          cells.add(`${x} ${y}`)
        }
      }
    }
    for (const { title, description } of shown) expect(description, title).toBeTruthy()
  })

  it('asks only for metrics that are there, by labels that they have', () => {
    expect(targets.length).toBeGreaterThan(25)
    for (const { title, expr, legendFormat } of targets) {
      const uses = usesOf(expr)
      expect(uses.length, `${title}: ${expr}`).toBeGreaterThan(0)
      expect(expr.match(/holdfast_/g)?.length, expr).toBe(uses.length)
      for (const { metric, labels } of uses) {
        const family = familyOf(metric)
        expect(family, `${title}: ${metric}`).toBeDefined()
        const isBucket = metric.endsWith('_bucket')
        expect(family?.type === 'histogram', `${title}: ${metric}`).toBe(isBucket)
        expect(/\b(rate|increase)\(/.test(expr), expr).toBe(isBucket || family?.type === 'counter')
        const [sample] = family?.samples ?? []
        // A family that nothing was counted in shows no labels; the tests of the metrics have them all.
        if (sample === undefined) continue
        for (const label of [...labels, ...groupedBy({ expr, legendFormat })]) {
          const known = OF_PROMETHEUS.has(label) || sample.labels.has(label)
          expect(known, `${title}: ${metric} has no label ${label}`).toBe(true)
        }
      }
    }
  })

  it('asks for everything that is there', () => {
    const asked = new Set(
      targets.flatMap(({ expr }) => usesOf(expr)).map(({ metric }) => familyOf(metric)?.name),
    )
    expect([...families.keys()].filter((name) => !asked.has(name))).toEqual([])
  })

  it('knows every variable that it uses', () => {
    const known = new Set(dashboard.templating.list.map(({ name }) => name))
    const used = JSON.stringify(dashboard).matchAll(/\$\{?([a-z]\w*)\}?/g)
    for (const [, name = ''] of used) expect(known.has(name), name).toBe(true)
  })
})
