import { describe, expect, it } from 'vitest'
import { Registry } from '../../src/prometheus.js'
import { parseExposition } from './exposition-parser.js'

const FORMATS = ['prometheus', 'openmetrics'] as const

describe.each(FORMATS)('a registry, written as %s', (format) => {
  const title = (name: string): string => (format === 'openmetrics' ? name.replace(/_total$/, '') : name)

  it('can be read back, whatever stands in labels and help', () => {
    const registry = new Registry()
    const jobs = registry.counter({
      name: 'jobs_total',
      help: 'Jobs \\ done\n"well"',
      labels: ['queue', 'result'],
    })
    const queues = [
      'plain',
      'a"b',
      'back\\slash',
      'two\nlines',
      '',
      'naïve ☃ 🔒',
      '\\n',
      '{}=,',
      'lone \ud800 half',
    ]
    for (const [index, queue] of queues.entries()) jobs.add({ queue, result: 'ok' }, index + 0.5)
    const family = parseExposition(registry.text(format), format).get(title('jobs_total'))
    expect(family?.help).toBe('Jobs \\ done\n"well"')
    expect(family?.samples.map(({ labels }) => labels.get('queue'))).toEqual(
      queues.map((queue) => queue.toWellFormed()),
    )
    expect(family?.samples.map(({ value }) => value)).toEqual(queues.map((_, index) => index + 0.5))
  })

  it('counts in buckets whose bounds belong to them', () => {
    const registry = new Registry()
    const sizes = registry.histogram({
      name: 'sizes',
      help: 'Sizes.',
      labels: ['of'],
      buckets: [1, 2.5, 10],
    })
    for (const value of [0, 1, 1.5, 2.5, 11, Number.NaN]) sizes.observe({ of: 'x' }, value)
    const samples = parseExposition(registry.text(format), format).get('sizes')?.samples ?? []
    const shown = samples.map(({ name, labels, value }) => [name, Number(labels.get('le') ?? NaN), value])
    expect(shown).toEqual([
      ['sizes_bucket', 1, 2],
      ['sizes_bucket', 2.5, 4],
      ['sizes_bucket', 10, 4],
      ['sizes_bucket', Number.NaN, 5],
      ['sizes_sum', Number.NaN, 16],
      ['sizes_count', Number.NaN, 5],
    ])
  })

  it('shows what has no labels from the beginning, and asks where it is told to', () => {
    const registry = new Registry()
    registry.counter({ name: 'starts_total', help: 'Starts.' }).add({}, 2)
    registry.gauge({ name: 'idle', help: 'Idle.' })
    let open = 3
    registry.gauge({ name: 'open', help: 'Open.' }).observe(() => open)
    const level = registry.gauge({ name: 'level', help: 'Level.', labels: ['tank'] })
    level.set({ tank: 'a' }, 5)
    level.add({ tank: 'a' }, -7.5)
    open = 4
    const families = parseExposition(registry.text(format), format)
    const valueOf = (name: string): number | undefined => families.get(name)?.samples[0]?.value
    expect([valueOf(title('starts_total')), valueOf('idle'), valueOf('open'), valueOf('level')]).toEqual([
      2, 0, 4, -2.5,
    ])
  })

  it('never has more series than it can bear', () => {
    const registry = new Registry()
    const hits = registry.counter({ name: 'hits_total', help: 'Hits.', labels: ['path'] })
    for (let index = 0; index < 5_000; index++) hits.add({ path: `/${index}` })
    const samples = parseExposition(registry.text(format), format).get(title('hits_total'))?.samples ?? []
    expect(samples.length).toBeLessThanOrEqual(2_001)
    const other = samples.find(({ labels }) => labels.get('path') === 'other')
    expect(other?.value).toBe(5_000 - (samples.length - 1))
  })
})

describe('a registry', () => {
  it('takes no name that a scraper would refuse, and none twice', () => {
    const registry = new Registry()
    const help = 'Help.'
    registry.gauge({ name: 'taken', help })
    expect(() => registry.gauge({ name: 'taken', help })).toThrow(/no other metric/)
    expect(() => registry.gauge({ name: '9lives', help })).toThrow(/name/)
    expect(() => registry.gauge({ name: 'with space', help })).toThrow(/name/)
    expect(() => registry.counter({ name: 'jobs', help })).toThrow(/_total/)
    expect(() => registry.gauge({ name: 'a', help, labels: ['__name__'] })).toThrow(/labels/)
    expect(() => registry.histogram({ name: 'b', help, labels: ['le'] })).toThrow(/labels/)
    expect(() => registry.gauge({ name: 'c', help, labels: ['x', 'x'] })).toThrow(/differ/)
    expect(() => registry.histogram({ name: 'd', help, buckets: [1, 1] })).toThrow(/rise/)
  })

  it('counts nothing that would break a rate', () => {
    const registry = new Registry()
    const jobs = registry.counter({ name: 'jobs_total', help: 'Jobs.' })
    for (const by of [-1, Number.NaN, Number.POSITIVE_INFINITY]) jobs.add({}, by)
    expect(registry.text()).toMatch(/^jobs_total 0$/m)
  })

  it('shows 0 of what is to be counted, without undoing a count or taking all the room', () => {
    const registry = new Registry()
    const jobs = registry.counter({ name: 'jobs_total', help: 'Jobs.', labels: ['queue'] })
    jobs.startAtZero({ queue: 'mail' })
    expect(registry.text()).toMatch(/^jobs_total\{queue="mail"\} 0$/m)
    jobs.add({ queue: 'mail' })
    jobs.startAtZero({ queue: 'mail' })
    expect(registry.text()).toMatch(/^jobs_total\{queue="mail"\} 1$/m)
    for (let index = 0; index < 5_000; index++) jobs.startAtZero({ queue: `${index}` })
    expect(registry.text().match(/^jobs_total/gm)).toHaveLength(1_000)
    jobs.add({ queue: '4999' })
    expect(registry.text()).toMatch(/^jobs_total\{queue="4999"\} 1$/m)
  })

  it('gives the format that the scrape asks for', () => {
    const registry = new Registry()
    const typeFor = (accept?: string): string => registry.expose(accept).contentType
    const plain = 'text/plain; version=0.0.4; charset=utf-8'
    const open = 'application/openmetrics-text; version=1.0.0; charset=utf-8'
    expect(typeFor()).toBe(plain)
    expect(typeFor('*/*')).toBe(plain)
    expect(typeFor('text/html, application/openmetrics-text;version=1.0.0;q=0')).toBe(plain)
    expect(typeFor('application/openmetrics-text;version=1.0.0;q=0.2,text/plain;version=0.0.4;q=0.9')).toBe(
      plain,
    )
    // What Prometheus itself sends.
    expect(
      typeFor('application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1'),
    ).toBe(open)
  })
})
