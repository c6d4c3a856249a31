import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { browserFor } from 'holdfast-servers'
import { createService, type Service } from 'holdfast-service'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { titled } from '../../../test/support/titled.js'
import { type Opened, openBrowser, openPage, PATIENCE_MS, rowOf } from './browser.js'
import { startHolder } from './holder.js'

const found = browserFor()
const TOKEN = `hft_${randomBytes(32).toString('base64url')}`

describe.skipIf(found.kind === 'not run')(
  titled('the page over a real service', found.kind === 'not run' ? found.reason : null),
  () => {
    let folder: string
    let service: Service
    let browser: Browser
    const opened: Opened[] = []

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'holdfast-dashboard-'))
      service = await createService({ url: `sqlite:${join(folder, 'locks.db')}`, listen: { port: 0 } })
      await service.listen()
      browser = await openBrowser(found)
    })

    afterEach(async () => {
      const misdeeds = opened.flatMap((one) => one.misdeeds)
      for (const { page } of opened.splice(0)) await page.context().close()
      expect(misdeeds).toEqual([])
    })

    afterAll(async () => {
      await browser?.close()
      await service?.close({ drainMs: 1_000 })
      if (folder !== undefined) await rm(folder, { recursive: true, force: true })
    })

    async function open(path: string, url = service.url): Promise<Page> {
      const one = await openPage(browser, `${url}/${path}`)
      opened.push(one)
      return one.page
    }

    async function post(path: string, body: object): Promise<Record<string, unknown>> {
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(`${service.url}${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      })
      return (await answer.json()) as Record<string, unknown>
    }

    async function acquireInPlayground(page: Page, name: string): Promise<void> {
      await page.locator('.form').getByLabel('Name').fill(name)
      await page.locator('.form').getByLabel('Note').fill('tried out')
      await page.click('.form .primary')
    }

    it('acquires in the playground, and a second tab sees it; releases, and it is gone', async () => {
      const watching = await open('#/locks')
      await watching.locator('.connection[data-state=live]').waitFor()
      const playing = await open('#/playground')
      await playing.locator('.connection[data-state=live]').waitFor()
      await acquireInPlayground(playing, 'play:1')
      await playing.locator('.held[data-state=held]').waitFor()
      const granted = performance.now()
      await rowOf(watching, 'play:1').waitFor()
      console.log(`seen in the second tab ${Math.round(performance.now() - granted)} ms after the grant was`)
      await rowOf(watching, 'play:1').locator('.note', { hasText: 'tried out' }).waitFor()
      // It is refused to another, who is told by whom.
      const other = await open('#/playground')
      await acquireInPlayground(other, 'play:1')
      await other.locator('.held[data-state=refused]').waitFor()
      await playing.click('.held button')
      await playing.locator('.held[data-state=released]').waitFor()
      await rowOf(watching, 'play:1').waitFor({ state: 'detached' })
    })

    it('keeps the claim out of the page, of storage and of addresses, and gives back what a closed page held', async () => {
      const page = await open('#/playground')
      let claim = ''
      page.on('response', (response) => {
        if (response.url().endsWith('/acquire')) void response.json().then((body) => (claim = body.claim))
      })
      // Longer than anybody waits here, so that only a release can end it.
      await page.locator('.form').getByLabel('Lease, s').fill('3600')
      await acquireInPlayground(page, 'play:secret')
      await page.locator('.held[data-state=held]').waitFor()
      await expect.poll(() => claim, { timeout: PATIENCE_MS / 2 }).toMatch(/^hf1\./)
      const places = await page.evaluate<string[]>(
        `[document.documentElement.outerHTML, JSON.stringify({ ...localStorage }), JSON.stringify({ ...sessionStorage }), location.href, document.title]`,
      )
      const id = claim.split('.').find((part) => part.length >= 22) ?? claim
      for (const place of places) expect(place).not.toContain(id)
      await page.close({ runBeforeUnload: true })
      const held = async (): Promise<unknown> => {
        const view = await (await fetch(`${service.url}/v1/locks/play%3Asecret`)).json()
        return (view as { holders: unknown }).holders
      }
      await expect.poll(held, { timeout: PATIENCE_MS / 2 }).toEqual([])
    })

    it('shows that a killed holder lost its lock', async () => {
      const list = await open('#/locks')
      await list.locator('.connection[data-state=live]').waitFor()
      const holder = await startHolder(service.url, 'killed:1', 4_000)
      try {
        await rowOf(list, 'killed:1').locator('.host', { hasText: 'holder-host' }).waitFor()
        const page = await open(`#/lock/${encodeURIComponent('killed:1')}`)
        await page.locator('.facts', { hasText: /renewals seen\s*[1-9]/ }).waitFor()
        holder.kill('SIGKILL')
        await rowOf(list, 'killed:1').locator('.mark', { hasText: 'lost' }).waitFor()
        await page.locator('tr.expired', { hasText: 'lost' }).waitFor()
        await page.locator('.span.hold.expired').waitFor({ state: 'attached' })
        await page.locator('.nobody', { hasText: 'Nobody holds it.' }).waitFor()
      } finally {
        holder.kill('SIGKILL')
      }
    })

    it('breaks a lock with a reason, by holding the button, and the next in line has it', async () => {
      const name = 'break/<b>me</b>'
      const path = `/v1/locks/${encodeURIComponent(name)}`
      await post(`${path}/acquire`, { ttlMs: 600_000, owner: { host: 'stuck', pid: 7, client: 'job' } })
      const next = post(`${path}/acquire`, { waitMs: 60_000, owner: { host: 'next', pid: 8, client: 'job' } })
      const page = await open(`#/lock/${encodeURIComponent(name)}`)
      await page.locator('.line', { hasText: 'next' }).waitFor()
      await page.click('.card .danger')
      const button = page.locator('dialog .hold-button')
      await button.click()
      await page.locator('.trouble', { hasText: 'a reason is needed' }).waitFor()
      await page.locator('dialog').getByLabel('Reason').fill('it hangs <i>since noon</i>')
      await button.click()
      await page.locator('.trouble', { hasText: 'Hold the button' }).waitFor()
      await button.hover()
      await page.mouse.down()
      await page.locator('.notice', { hasText: '1 hold broken.' }).waitFor()
      await page.mouse.up()
      expect(await next).toMatchObject({ name })
      await page.locator('.card', { hasText: 'next' }).waitFor()
      await page.locator('tr.broken', { hasText: 'it hangs <i>since noon</i>' }).waitFor()
      await page.locator('path.hand-over').waitFor({ state: 'attached' })
    })

    it('shows a real deadlock in red, and nothing when it is over', async () => {
      // As the library writes it for a piece of work of its own, by which the circle is certain.
      const owner = (n: number) => ({ host: `host-${n}`, pid: n, client: `c${n}~s${String(n).repeat(16)}` })
      const take = (name: string, n: number, waitMs: number) =>
        post(`/v1/locks/${name}/acquire`, { ttlMs: 60_000, waitMs, owner: owner(n) })
      const first = await take('dead-a', 1, 0)
      await take('dead-b', 2, 0)
      const waits = [take('dead-b', 1, 60_000), take('dead-a', 2, 60_000)]
      const page = await open('#/graph')
      await page.locator('.deadlock', { hasText: 'host-1 · 1 · c1 · #1111 waits for “dead-b”' }).waitFor()
      expect(await page.locator('.deadlock.possible').count()).toBe(0)
      expect(await page.locator('.node.red').count()).toBe(4)
      await post('/v1/locks/dead-a/release', { claim: first['claim'] })
      await page.locator('.deadlock').waitFor({ state: 'detached' })
      await post('/v1/locks/dead-b/break', { reason: 'the test is over' })
      await Promise.all(waits)
    })

    it('asks for a token where the service wants one, and sends it in a header only', async () => {
      const sha256 = createHash('sha256').update(TOKEN).digest('hex')
      const auth = {
        tokens: [{ name: 'reader', sha256, rights: [{ prefix: 'mine:', can: ['inspect' as const] }] }],
      }
      const guarded = await createService({
        url: `sqlite:${join(folder, 'guarded.db')}`,
        listen: { port: 0 },
        auth,
      })
      try {
        const page = await open('#/locks', await guarded.listen())
        const asked: string[] = []
        page.on('request', (request) => asked.push(request.url()))
        await page.locator('dialog.token').waitFor()
        await page.locator('dialog.token input').fill('wrong-token')
        await page.keyboard.press('Enter')
        await page.locator('.trouble', { hasText: 'does not know' }).waitFor()
        await page.locator('dialog.token input').fill(TOKEN)
        await page.keyboard.press('Enter')
        await page.locator('.connection[data-state=live]').waitFor()
        await page.reload()
        await page.locator('.connection[data-state=live]').waitFor()
        expect(asked.join('\n')).not.toContain(TOKEN)
        expect(await page.evaluate('document.documentElement.outerHTML')).not.toContain(TOKEN)
        // It may look and not take, and is told so.
        await page.goto(`${guarded.url}/#/playground`)
        await acquireInPlayground(page, 'mine:1')
        await page.locator('.held[data-state=failed]', { hasText: 'right' }).waitFor()
        await page.click('[aria-label="Forget the token"]')
        await page.locator('dialog.token').waitFor()
      } finally {
        await guarded.close({ drainMs: 100 })
      }
    })
  },
)
