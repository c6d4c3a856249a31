import { browserFor } from 'holdfast-servers'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { titled } from '../../../test/support/titled.js'
import type { Deadlock } from '../src/model/contract.js'
import { POLL, rowOf } from './browser.js'
import { makeUpPages } from './made-up-pages.js'
import { claim, mutex } from './made-up-service.js'

const found = browserFor()

/** How much more red than green there is in it: little in amber, much in red. */
async function redness(page: Page, selector: string, property: string): Promise<number> {
  const colour = await page.evaluate<string>(
    `getComputedStyle(document.querySelector('${selector}')).getPropertyValue('${property}')`,
  )
  const [r = 0, g = 0] = colour.match(/\d+/g)?.map(Number) ?? []
  return r / Math.max(1, g)
}

describe.skipIf(found.kind === 'not run')(
  titled('circles, on the page', found.kind === 'not run' ? found.reason : null),
  () => {
    const open = makeUpPages(found)
    const [one, two] = [1, 2].map((pid) => claim(`c${pid}`, { owner: { host: `h${pid}`, pid, client: 'x' } }))
    if (one === undefined || two === undefined) throw new Error('There are two.')
    const locks = [mutex('A', [one], [two]), mutex('B', [two], [one])]
    const cycle = [
      { waiter: one, waitsFor: 'B', heldBy: two },
      { waiter: two, waitsFor: 'A', heldBy: one },
    ]
    const possible: Deadlock = { certain: false, cycle }
    const certain: Deadlock = { certain: true, cycle }

    it('that do not fit into a message are counted', async () => {
      const { page, service } = await open({ locks, deadlocks: [certain], path: '#/graph' })
      await page.locator('.deadlock h2').waitFor()
      expect(await page.locator('.left-out').count()).toBe(0)
      service.send('deadlocks', { deadlocks: [certain], total: 300 })
      await page.locator('.left-out', { hasText: /^1 of 300 deadlocks shown/ }).waitFor()
      await page.goto(`${service.url}/#/locks`)
      await page.locator('a.number.deadlocks.bad', { hasText: /^1\+/ }).waitFor()
      service.send('deadlocks', { deadlocks: [certain], total: 1 })
      await page.locator('a.number.deadlocks.bad', { hasText: /^1\s*deadlocks/ }).waitFor()
    })

    it('that are only possible are shown as that, in the colour of a warning, and not announced', async () => {
      const { page, service } = await open({ locks, deadlocks: [possible] })
      const [marks, number] = [page.locator('.mark.stuck:visible'), page.locator('a.number.possible')]
      await rowOf(page, 'A').waitFor()
      await number.waitFor()
      expect(await number.innerText()).toMatch(/^1\s+possible deadlocks$/)
      expect(await page.locator('a.number.deadlocks').innerText()).toMatch(/^0\s+deadlocks$/)
      expect(await page.locator('.bad').count()).toBe(0)
      expect(await marks.allInnerTexts()).toEqual(['possible deadlock', 'possible deadlock'])
      expect(await redness(page, '.mark.stuck:not([hidden])', 'color')).toBeLessThan(2)
      await page.goto(`${service.url}/#/graph`)
      await page.locator('.deadlock h2', { hasText: /^Possible deadlock 1: 2 owners in a circle$/ }).waitFor()
      expect(await page.locator('.node.possible').count()).toBe(4)
      expect(await page.locator('.edge.possible').count()).toBe(4)
      expect(await page.locator(':is(.node, .edge).red').count()).toBe(0)
      expect(await redness(page, '.node.possible rect', 'stroke')).toBeLessThan(2)
      expect(await page.locator('.notice').count()).toBe(0)
      // When it turns out to be one, it is said.
      service.send('deadlocks', { deadlocks: [certain] })
      await page.locator('.notice.bad', { hasText: /^1 deadlock: see the graph\.$/ }).waitFor()
      await page.locator('.deadlock h2', { hasText: /^Deadlock 1: 2 owners in a circle$/ }).waitFor()
      expect(await page.locator('.node.red').count()).toBe(4)
      expect(await redness(page, '.node.red rect', 'stroke')).toBeGreaterThan(2)
      await page.goto(`${service.url}/#/locks`)
      await page.locator('a.number.deadlocks.bad', { hasText: '1' }).waitFor()
      await expect.poll(() => marks.allInnerTexts(), POLL).toEqual(['deadlock', 'deadlock'])
      expect(await redness(page, '.mark.stuck:not([hidden])', 'background-color')).toBeGreaterThan(2)
      expect(await number.isHidden()).toBe(true)
    })
  },
)
