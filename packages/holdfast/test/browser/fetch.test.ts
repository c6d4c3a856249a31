// @module-tag effects
import { browserFor } from 'holdfast-servers'
import type { Browser, BrowserContext, Page, Route } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import {
  deadPort,
  minifiedHelper,
  openBrowser,
  openContext,
  openSite,
  type Script,
  type Sent,
  type Site,
} from './stage.js'

const KEY = /^"[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}"$/

/** What runs in the page is text here, since only the page knows what a page has. */
const PAGE = `<!doctype html><script type="module">
  import { idempotentFetch, isInFlight } from '/browser.js'
  const start = setTimeout
  globalThis.waits = []
  // The waits are told, and short.
  globalThis.hurry = () => {
    globalThis.setTimeout = (run, ms) => { waits.push(ms); return start(run, ms / 1000) }
  }
  globalThis.isInFlight = isInFlight
  globalThis.send = async (path, intent, options = {}, init = {}) => {
    try {
      const response = await idempotentFetch(path, { method: 'POST', body: 'same', ...init }, { intent, ...options })
      return { status: response.status, type: response.type, text: await response.text() }
    } catch (error) {
      return { error: error.name, message: error.message }
    }
  }
  globalThis.ready = true
</script>`

interface Outcome {
  readonly status?: number
  readonly type?: string
  readonly text?: string
  readonly error?: string
  readonly message?: string
}

const IN_PROGRESS: Script = {
  status: 409,
  headers: { 'content-type': 'application/problem+json' },
  body: '{"code":"idempotency-in-progress"}',
}

const browser = browserFor()

describe.skipIf(browser.kind === 'not run')(
  titled('idempotentFetch, in Chromium', browser.kind === 'not run' ? browser.reason : null),
  () => {
    let site: Site
    let chrome: Browser
    let context: BrowserContext
    let paths = 0

    beforeAll(async () => {
      if (browser.kind === 'not run') return
      site = await openSite(await minifiedHelper())
      site.pages.set('/', PAGE)
      chrome = await openBrowser(browser.path)
      context = await openContext(chrome)
    })

    afterAll(async () => {
      await chrome?.close()
      await site?.close()
    })

    async function open(before = ''): Promise<Page> {
      const page = await context.newPage()
      if (before !== '') await page.addInitScript(before)
      await page.goto(site.url)
      await page.waitForFunction('globalThis.ready')
      return page
    }

    /** A path with these answers, one after the other; the last one stays. */
    function answering(...script: Script[]): string {
      const path = `/orders-${++paths}`
      site.answers.set(path, script)
      return path
    }

    const send = (page: Page, path: string, intent: string, rest = ''): Promise<Outcome> =>
      page.evaluate<Outcome>(`send(${JSON.stringify(path)}, ${JSON.stringify(intent)}${rest})`)

    const inFlight = (page: Page, intent: string): Promise<boolean> =>
      page.evaluate<boolean>(`isInFlight(${JSON.stringify(intent)})`)

    const keysOf = (sent: readonly Sent[]): unknown[] => sent.map((one) => one.headers['idempotency-key'])

    it('61. keeps key and bytes over everything that is no final answer, and drops the key after one', async () => {
      const page = await open()
      await page.evaluate('hurry()')
      const path = answering(
        IN_PROGRESS,
        { status: 425 },
        { status: 429 },
        { status: 500 },
        { status: 503 },
        { status: 201, body: 'made' },
      )
      // Not by the server: Chromium itself repeats a request whose connection ends, so nobody could tell how often.
      let first: Record<string, string> = {}
      await page.route(
        `**${path}`,
        async (route) => {
          first = await route.request().allHeaders()
          await route.abort('connectionreset')
        },
        { times: 1 },
      )
      expect(await send(page, path, 'a', ', { retries: 6 }')).toMatchObject({ status: 201, text: 'made' })
      const sent = site.to(path)
      expect(sent).toHaveLength(6)
      expect(first['idempotency-key']).toBe(keysOf(sent)[0])
      expect(new Set(keysOf(sent)).size).toBe(1)
      expect(keysOf(sent)[0]).toMatch(KEY)
      expect(new Set(sent.map((one) => one.body))).toEqual(new Set(['same']))
      expect(await inFlight(page, 'a')).toBe(false)
      const waits = await page.evaluate<number[]>('waits')
      expect(waits).toHaveLength(6)
      waits.forEach((ms, at) => {
        const most = [500, 1_000, 2_000, 4_000][at] ?? 8_000
        expect(ms).toBeGreaterThanOrEqual(most / 2)
        expect(ms).toBeLessThanOrEqual(most)
      })
      // The next one is another intent, though it has the same name.
      await send(page, path, 'a')
      expect(keysOf(site.to(path)).at(-1)).not.toBe(keysOf(sent)[0])
      await page.close()
    })

    it('61. asks once, and drops the key, where the answer is final', async () => {
      const page = await open()
      for (const answer of [
        { status: 200 },
        { status: 204 },
        { status: 400 },
        { status: 404 },
        { status: 422 },
        { status: 409, body: 'no JSON' },
        { status: 409, body: '{"code":"idempotency-result-not-replayable"}' },
      ]) {
        const path = answering(answer)
        expect(await send(page, path, 'final')).toMatchObject({ status: answer.status })
        expect(site.to(path)).toHaveLength(1)
        expect(await inFlight(page, 'final')).toBe(false)
      }
      const moved = answering({ status: 303, headers: { location: '/' } })
      expect(await send(page, moved, 'moved', ', {}, { redirect: "manual" }')).toMatchObject({
        type: 'opaqueredirect',
      })
      expect(await inFlight(page, 'moved')).toBe(false)
      await page.close()
    })

    it('61. asks once, and keeps the key, where the answer does not say what came of the request', async () => {
      const page = await open()
      await page.evaluate('hurry()')
      for (const answer of [
        { status: 401 },
        { status: 403, body: '{"code":"idempotency-forbidden"}' },
        { status: 408 },
        { status: 409, body: '{"code":"idempotency-outcome-unknown"}' },
      ]) {
        const path = answering({ status: 201 })
        const keys: unknown[] = []
        // Not by the server: Chromium itself repeats what is answered with 408 on a connection that was used before.
        const meddle = async (route: Route): Promise<void> => {
          keys.push((await route.request().allHeaders())['idempotency-key'])
          // What the first one did is known to nobody: its answer is lost.
          if (keys.length === 1) await route.abort('connectionreset')
          else await route.fulfill(answer)
        }
        await page.route(`**${path}`, meddle, { times: 2 })
        expect(await send(page, path, 'open')).toMatchObject({ status: answer.status })
        expect(keys).toHaveLength(2)
        expect(await inFlight(page, 'open')).toBe(true)
        // The next click, after a login for example, is the same order.
        expect(await send(page, path, 'open')).toMatchObject({ status: 201 })
        expect(new Set([...keys, ...keysOf(site.to(path))]).size).toBe(1)
        expect(site.to(path)).toHaveLength(1)
        expect(await inFlight(page, 'open')).toBe(false)
      }
      await page.close()
    })

    it('61. goes on with the same key after a reload while the request was on its way', async () => {
      const page = await open()
      const path = answering('hang', { status: 201, body: 'made' })
      await page.evaluate(`void send('${path}', 'order')`)
      await expect.poll(() => site.to(path).length, { timeout: 60_000 }).toBe(1)
      await page.reload()
      await page.waitForFunction('globalThis.ready')
      expect(await inFlight(page, 'order')).toBe(true)
      expect(await inFlight(page, 'another')).toBe(false)
      expect(await send(page, path, 'order')).toMatchObject({ status: 201 })
      const keys = keysOf(site.to(path))
      expect(keys).toHaveLength(2)
      expect(keys[1]).toBe(keys[0])
      expect(await inFlight(page, 'order')).toBe(false)
      // A tab has its own keys.
      const next = await open()
      await send(next, path, 'order')
      expect(keysOf(site.to(path))[2]).not.toBe(keys[0])
      await next.close()
      await page.close()
    })

    it('keeps the key when the retries are used up, and gives the last answer or error', async () => {
      const page = await open()
      await page.evaluate('hurry()')
      const path = answering(
        { status: 503, body: 'later' },
        { status: 503, body: 'much later' },
        { status: 200 },
      )
      expect(await send(page, path, 'b', ', { retries: 1 }')).toMatchObject({
        status: 503,
        text: 'much later',
      })
      expect(await inFlight(page, 'b')).toBe(true)
      expect(await send(page, path, 'b')).toMatchObject({ status: 200 })
      expect(new Set(keysOf(site.to(path))).size).toBe(1)

      const nowhere = `http://127.0.0.1:${await deadPort()}/`
      expect(await send(page, nowhere, 'c', ', { retries: 2 }')).toMatchObject({ error: 'TypeError' })
      expect(await inFlight(page, 'c')).toBe(true)
      await page.close()
    })

    it('sends the same bytes each time: text, forms with files, bytes and parameters', async () => {
      const page = await open()
      await page.evaluate('hurry()')
      const bodies = {
        text: `'{"a":1,"ä":"ö"}'`,
        form: `(() => {
        const form = new FormData()
        form.set('file', new File(['content'], 'name.txt', { type: 'text/plain' }))
        form.set('q', 'a')
        return form
      })()`,
        bytes: 'new Uint8Array([0, 255, 13, 10])',
        blob: `new Blob(['blob'], { type: 'text/x-thing' })`,
        parameters: `new URLSearchParams({ q: 'a b' })`,
        nothing: 'undefined',
      }
      for (const [name, body] of Object.entries(bodies)) {
        const path = answering({ status: 500 }, 'drop', { status: 503 }, { status: 200 })
        expect(await send(page, path, name, `, {}, { body: ${body} }`)).toMatchObject({ status: 200 })
        const sent = site.to(path)
        expect(sent.length).toBeGreaterThanOrEqual(4)
        expect(new Set(sent.map((one) => one.body)).size).toBe(1)
        expect(new Set(sent.map((one) => one.headers['content-type'])).size).toBe(1)
        if (name === 'form')
          expect(sent[0]?.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/)
        if (name === 'form') expect(sent[0]?.body).toContain('content')
        if (name === 'bytes') expect(sent[0]?.body).toBe('\x00\xff\r\n')
        if (name === 'blob') expect(sent[0]?.headers['content-type']).toBe('text/x-thing')
      }
      await page.close()
    })

    it('refuses a stream and an intent without a name before anything is sent', async () => {
      const page = await open()
      const path = answering({ status: 200 })
      const stream = `, {}, { body: new Blob(['a']).stream(), duplex: 'half' }`
      expect(await send(page, path, 'd', stream)).toMatchObject({
        error: 'TypeError',
        message: expect.stringContaining('stream'),
      })
      expect(await send(page, path, '')).toMatchObject({ error: 'TypeError' })
      expect(await inFlight(page, 'd')).toBe(false)
      expect(site.to(path)).toHaveLength(0)
      await page.close()
    })

    it('waits as long as the server says, in seconds or until a date of its own clock, and no longer than it may', async () => {
      const page = await open()
      const seconds = answering({ status: 503, headers: { 'retry-after': '1' } }, { status: 200 })
      expect(await send(page, seconds, 'e')).toMatchObject({ status: 200 })
      const [first, second] = site.to(seconds)
      // The timer of a page may be early by less than a millisecond.
      expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(990)

      await page.evaluate('hurry()')
      // The server's clock is years behind that of the page.
      const dated = answering(
        {
          status: 429,
          headers: { date: 'Fri, 01 Jan 2021 00:00:00 GMT', 'retry-after': 'Fri, 01 Jan 2021 00:00:30 GMT' },
        },
        { status: 200 },
      )
      expect(await send(page, dated, 'f')).toMatchObject({ status: 200 })
      expect(await page.evaluate('waits')).toEqual([30_000])

      const long = answering({ status: 503, headers: { 'retry-after': '61' } }, { status: 200 })
      expect(await send(page, long, 'g')).toMatchObject({ status: 503 })
      expect(await inFlight(page, 'g')).toBe(true)
      const rubbish = answering({ status: 503, headers: { 'retry-after': 'soon' } }, { status: 200 })
      expect(await send(page, rubbish, 'h')).toMatchObject({ status: 200 })
      await page.close()
    })

    it('stops when it is aborted, on its way and while it waits, and keeps the key', async () => {
      const page = await open()
      const hanging = answering('hang')
      await page.evaluate(`globalThis.stop = new AbortController()
      globalThis.outcome = send('${hanging}', 'i', {}, { signal: stop.signal }); 0`)
      await expect.poll(() => site.to(hanging).length, { timeout: 60_000 }).toBe(1)
      expect(await page.evaluate('stop.abort(), outcome')).toMatchObject({ error: 'AbortError' })
      expect(await inFlight(page, 'i')).toBe(true)

      const busy = answering({ status: 503, headers: { 'retry-after': '50' } })
      await page.evaluate(`globalThis.stop = new AbortController()
      globalThis.outcome = send('${busy}', 'j', { onRetry: ({ waitMs }) => waits.push(waitMs) }, { signal: stop.signal }); 0`)
      await page.waitForFunction('waits.length === 1')
      expect(await page.evaluate('stop.abort(), outcome')).toMatchObject({ error: 'AbortError' })
      expect(await inFlight(page, 'j')).toBe(true)

      const never = answering({ status: 200 })
      expect(await send(page, never, 'k', ', {}, { signal: AbortSignal.abort() }')).toMatchObject({
        error: 'AbortError',
      })
      expect(await inFlight(page, 'k')).toBe(false)
      expect(site.to(never)).toHaveLength(0)
      await page.close()
    })

    it('keeps keys in the memory of the page where sessionStorage is refused or full', async () => {
      const refused = `Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('no', 'SecurityError') } })`
      const full = `Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }`
      for (const fault of [refused, full]) {
        const page = await open(fault)
        await page.evaluate('hurry()')
        const path = answering({ status: 503 }, { status: 503 }, { status: 200 })
        expect(await send(page, path, 'l', ', { retries: 0 }')).toMatchObject({ status: 503 })
        expect(await inFlight(page, 'l')).toBe(true)
        expect(await send(page, path, 'l')).toMatchObject({ status: 200 })
        expect(await inFlight(page, 'l')).toBe(false)
        expect(new Set(keysOf(site.to(path))).size).toBe(1)
        await page.close()
      }
    })

    it('gives two calls of one intent one key, and the one that ends later does not drop the next key', async () => {
      const page = await open()
      await page.evaluate('hurry()')
      let goOn = (): void => {}
      const path = answering({ status: 200 }, { status: 503 }, { status: 200 })
      const slow = (route: Route): void => {
        goOn = () => void route.continue()
      }
      await page.route(`**${path}`, slow, { times: 1 })
      const slowSent = page.waitForRequest(`**${path}`)
      await page.evaluate(`globalThis.outcome = send('${path}', 'm'); 0`)
      const slowKey = (await (await slowSent).allHeaders())['idempotency-key']
      await send(page, path, 'm')
      expect(keysOf(site.to(path))).toEqual([slowKey])
      expect(await inFlight(page, 'm')).toBe(false)
      await send(page, path, 'm', ', { retries: 0 }')
      expect(await inFlight(page, 'm')).toBe(true)
      goOn()
      expect(await page.evaluate('outcome')).toMatchObject({ status: 200 })
      expect(await inFlight(page, 'm')).toBe(true)
      await page.close()
    })
  },
)
