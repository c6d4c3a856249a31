import { browserFor } from 'holdfast-servers'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { titled } from '../../../test/support/titled.js'
import type { Activity, ResourceView } from '../src/model/contract.js'
import { POLL } from './browser.js'
import { makeUpPages } from './made-up-pages.js'
import { claim, happened, mutex } from './made-up-service.js'

const found = browserFor()

describe.skipIf(found.kind === 'not run')(
  titled('the page of one lock', found.kind === 'not run' ? found.reason : null),
  () => {
    const open = makeUpPages(found)
    const path = '#/lock/a'
    const [one, two, three] = ['1', '2', '3'].map((ref) =>
      claim(ref, { owner: { host: `host-${ref}`, pid: Number(ref), client: '' }, fence: `${ref}024` }),
    )
    if (one === undefined || two === undefined || three === undefined) throw new Error('There are three.')

    /** What the history says, newest first. */
    function historyOf(page: Page): Promise<string[]> {
      return page.evaluate<string[]>(`[...document.querySelectorAll('.events tbody tr')].map((row) =>
      ['.what', '.host'].map((part) => row.querySelector(part)?.textContent).join(' '))`)
    }

    it('has what happened while it was not connected, and goes on, also with an instance that counts anew', async () => {
      const now = Date.now()
      const madeUp: { locks: ResourceView[]; history: Activity[]; path: string } = {
        locks: [mutex('a', [one])],
        history: [
          happened(899, now - 90_000, 'broken', three, { heldMs: 1_000 }),
          happened(900, now - 60_000, 'acquired', one),
        ],
        path,
      }
      const { page, service } = await open(madeUp)
      await expect.poll(() => historyOf(page), POLL).toEqual(['acquired host-1', 'broken host-3'])
      service.send('activity', happened(901, now - 50_000, 'waiting', two))
      await expect.poll(() => historyOf(page), POLL).toHaveLength(3)
      // Another instance, which has not seen the first of it, and has lower numbers.
      madeUp.locks = [mutex('a', [two])]
      madeUp.history = [
        happened(1, now - 60_000, 'acquired', one),
        happened(2, now - 30_000, 'released', one, { heldMs: 30_000 }),
        happened(3, now - 30_000, 'acquired', two, { waitedMs: 20_000 }),
      ]
      service.cut()
      await expect
        .poll(() => historyOf(page), POLL)
        .toEqual(['acquired host-2', 'released host-1', 'acquired host-1'])
      expect(await page.locator('.span.hold').count()).toBe(2)
      service.send('change', { changed: [mutex('a', [three])], removed: [] })
      service.send('activity', happened(4, now, 'released', two, { heldMs: 30_000 }))
      service.send('activity', happened(5, now, 'acquired', three))
      await expect
        .poll(() => historyOf(page), POLL)
        .toEqual([
          'acquired host-3',
          'released host-2',
          'acquired host-2',
          'released host-1',
          'acquired host-1',
        ])
      expect(await page.locator('.span.hold').count()).toBe(3)
    })

    it('shows older events that come later, though the newest is the same', async () => {
      const now = Date.now()
      const newest = happened(7, now, 'acquired', two)
      const madeUp: { locks: ResourceView[]; history: Activity[]; path: string } = {
        locks: [mutex('a', [two])],
        history: [newest],
        path,
      }
      const { page, service } = await open(madeUp)
      await expect.poll(() => historyOf(page), POLL).toEqual(['acquired host-2'])
      madeUp.history = [happened(6, now - 1_000, 'released', one, { heldMs: 1_000 }), newest]
      service.cut()
      await expect.poll(() => historyOf(page), POLL).toEqual(['acquired host-2', 'released host-1'])
    })

    it('shows one holder of a mutex at a time, also where the end of a hold was missed', async () => {
      const now = Date.now()
      const history = [happened(1, now - 60_000, 'acquired', one), happened(2, now - 30_000, 'acquired', two)]
      const { page } = await open({ locks: [mutex('a', [two])], history, path })
      const missed = page.locator('g', { has: page.locator('.span.hold.unseen') })
      await missed.waitFor({ state: 'attached' })
      expect(await missed.locator('title').textContent()).toBe(
        'held for at most 30 s, its end was not seen, fence 1024',
      )
      expect(await page.locator('.span.hold').count()).toBe(2)
      const [first, second] = await Promise.all(
        [missed.locator('.span'), page.locator('.span.hold:not(.unseen)')].map((bar) => bar.boundingBox()),
      )
      // The one ends where the other begins, but for the line around it.
      expect((first?.x ?? 0) + (first?.width ?? 0)).toBeLessThanOrEqual((second?.x ?? 0) + 2)
    })

    it('isolates the holder in what it says after a break, whatever the direction of the text', async () => {
      const host = 'שרת\u{202e}-1'
      const holder = claim('rtl', { owner: { host, pid: 7, client: '' } })
      const { page } = await open({ locks: [mutex('a', [holder])], path })
      await page.click('.card .danger')
      await page.locator('dialog').getByLabel('Reason').fill('it hangs')
      await page.locator('dialog').getByLabel('Type the name').fill('a')
      await page.locator('dialog .hold-button').click()
      await page.locator('.notice').waitFor()
      const [text, isolated] = await page.evaluate<[string, string]>(`(() => {
        const notice = document.querySelector('.notice')
        return [notice.textContent, notice.querySelector('bdi')?.textContent ?? '']
      })()`)
      expect(isolated).toContain('שרת\\u{202e}-1')
      expect(text).toMatch(/^Nothing was broken: the hold of .* had ended before\./)
    })

    it('draws many things that happen at once together', async () => {
      const { page, service } = await open({ locks: [mutex('a', [one])], path })
      await page.locator('.connection[data-state=live]').waitFor()
      await page.locator('.card').waitFor()
      await page.evaluate(`(() => {
      window.drawn = 0
      const before = Element.prototype.replaceChildren
      Element.prototype.replaceChildren = function (...children) {
        if (this.matches('.events tbody')) window.drawn += 1
        return before.apply(this, children)
      }
    })()`)
      const now = Date.now()
      for (let seq = 1; seq <= 400; seq += 1) {
        const who = claim(`many-${seq}`, { owner: { host: `host-${seq}`, pid: 1, client: '' } })
        service.send('activity', happened(seq, now + seq, 'released', who, { heldMs: 1 }))
      }
      await page.locator('.events .host', { hasText: /^host-400$/ }).waitFor()
      const drawn = await page.evaluate<number>('window.drawn')
      expect(drawn).toBeGreaterThan(0)
      expect(drawn).toBeLessThan(100)
    })
  },
)
