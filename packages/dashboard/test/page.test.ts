import { browserFor } from 'holdfast-servers'
import { describe, expect, it } from 'vitest'
import { titled } from '../../../test/support/titled.js'
import { POLL, rowOf } from './browser.js'
import { makeUpPages } from './made-up-pages.js'
import { claim, manyLocks, mutex } from './made-up-service.js'

const found = browserFor()

describe.skipIf(found.kind === 'not run')(
  titled('the page, in Chromium', found.kind === 'not run' ? found.reason : null),
  () => {
    const open = makeUpPages(found)

    it('shows ten thousand locks, finds among them while one types, and keeps few rows', async () => {
      const { page, service } = await open({ locks: manyLocks(10_000) })
      await page.locator('.count', { hasText: '10,000 locks' }).waitFor()
      const rows = await page.locator('.rows .row').count()
      expect(rows).toBeGreaterThan(10)
      expect(rows).toBeLessThan(60)
      // In time of the page's own thread, since on a busy machine the time of the wall is that of others.
      const session = await page.context().newCDPSession(page)
      await session.send('Performance.enable', { timeDomain: 'threadTicks' })
      const spent = async (): Promise<number> => {
        const { metrics } = await session.send('Performance.getMetrics')
        return metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN
      }
      const before = await spent()
      const least = await page.evaluate<number>(`(async () => {
      const input = document.querySelector('#filter')
      const costs = []
      for (const text of ['w', 'wo', 'wor', 'work', 'worker', 'worker-3', 'worker-31', '', 'batch 7', 'order:0']) {
        await new Promise((resolve) => requestAnimationFrame(resolve))
        const before = performance.now()
        input.value = text
        input.dispatchEvent(new Event('input', { bubbles: true }))
        void document.querySelector('.rows').getBoundingClientRect()
        costs.push(performance.now() - before)
      }
      return Math.min(...costs)
    })()`)
      const each = ((await spent()) - before) * 100
      console.log(
        `a key in the filter of 10,000 locks: ${each.toFixed(1)} ms of the processor, the quickest took ${least.toFixed(1)} ms`,
      )
      await page.fill('#filter', 'worker-31 batch')
      await page.locator('.count', { hasText: /^\d+ of 10,000 locks$/ }).waitFor()
      for (const text of await page.locator('.rows .row .host').allTextContents())
        expect(text).toBe('worker-31')
      await page.fill('#filter', '')
      // To the end and back: the last row is there when one looks at it.
      await page.focus('[role=grid]')
      await page.keyboard.press('End')
      await page.locator('.row[aria-selected=true][aria-rowindex="10001"]').waitFor()
      service.send('change', { changed: [mutex('!first', [claim('new')])], removed: [] })
      await page.keyboard.press('Home')
      await rowOf(page, '!first').waitFor()
      await page.locator('.count', { hasText: '10,001 locks' }).waitFor()
    })

    it('runs nothing of what names, notes and owners say', async () => {
      const evil = '<img src=x onerror="console.log(1)"><script>console.log(2)</script>'
      const owner = { host: evil, pid: 1, client: `javascript:console.log(3)//${evil}` }
      const held = claim('1', { owner, note: evil })
      const names = [
        evil,
        '"><svg onload=console.log(4)>',
        '\u202etxt.exe',
        '#/lock/%',
        '‮'.repeat(20),
        'é'.repeat(256),
      ]
      const locks = names.map((name) => mutex(name, [held], [claim('2', { owner, note: evil })]))
      const event = {
        at: new Date().toISOString(),
        owner,
        note: evil,
        fence: null,
        waitedMs: 1,
        heldMs: null,
        reason: evil,
      }
      const history = [{ ...event, seq: 1, kind: 'broken' as const, name: evil, ref: '1' }]
      const cycle = [{ waiter: held, waitsFor: evil, heldBy: held }]
      const { page, service } = await open({ locks, history, deadlocks: [{ certain: true, cycle }] })
      await expect.poll(() => page.locator('.rows .row').count(), POLL).toBe(names.length)
      service.send('activity', history[0])
      for (const name of names) {
        await page.goto(`${service.url}/#/lock/${encodeURIComponent(name)}`)
        await page.locator('h1').waitFor()
        await page.locator('.card .process').waitFor()
        await page.locator('tr.broken').first().waitFor()
      }
      for (const [path, element] of [
        ['graph', '.node.red'],
        ['activity', '.events'],
        ['locks', '.rows .row'],
      ] as const) {
        await page.goto(`${service.url}/#/${path}`)
        await page.locator(element).first().waitFor()
      }
      expect(
        await page.evaluate(
          `document.querySelectorAll('img, script:not([src]), [onerror], [onload], [style*=url]').length`,
        ),
      ).toBe(0)
      // A name that turns its surroundings around is shown by what it does it with.
      await page.locator('.name', { hasText: '\\u{202e}txt.exe' }).waitFor()
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
    })

    it('writes out what hides or reorders, also in tooltips, labels and the title', async () => {
      const trick = '\u202egnp\u2066.\u200bexe'
      const who = (n: number) =>
        claim(`${trick}${n}`, {
          owner: { host: `h${n}${trick}`, pid: n, client: `c\n${trick}` },
          note: trick,
        })
      const name = `${trick} in a name that is too long for its column`
      const shape = { kind: 'semaphore', limit: 3 } as const
      const lock = { name, shape, holders: [who(1), who(2), who(3)], waiters: [who(4), who(5)] }
      const cycle = [{ waiter: who(4), waitsFor: name, heldBy: who(1) }]
      const { page, service } = await open({ locks: [lock], deadlocks: [{ certain: true, cycle }] })
      const read = (): Promise<string[]> =>
        page.evaluate(`[document.title, ...[...document.querySelectorAll('[title], [aria-label], [placeholder], title')]
        .flatMap((one) => [one.title, one.ariaLabel, one.placeholder, one.localName === 'title' ? one.textContent : ''])]
        .filter((text) => typeof text === 'string' && text.includes('gnp'))`)
      for (const [path, element, least] of [
        ['locks', '.rows .chip', 5],
        [`lock/${encodeURIComponent(name)}`, '.card', 8],
        ['graph', '.node.red', 3],
      ] as const) {
        await page.goto(`${service.url}/#/${path}`)
        await page.locator(element).first().waitFor()
        const texts = await read()
        expect(texts.length).toBeGreaterThanOrEqual(least)
        for (const text of texts) expect(text).toContain('\\u{202e}gnp\\u{2066}.\\u{200b}exe')
      }
      await page.goto(`${service.url}/#/locks`)
      // One line for each of those that are not shown, and no line that one of them has made up.
      const others = await page.locator('.holder .more').getAttribute('title')
      expect(others?.split('\n').map((line) => line.slice(0, 2))).toEqual(['h2', 'h3'])
    })

    it('can be used with the keyboard alone', async () => {
      const locks = ['a', 'b', 'c'].map((name) => mutex(name, [claim(name)]))
      const { page, service } = await open({ locks })
      await rowOf(page, 'a').waitFor()
      await page.keyboard.press('?')
      await page.locator('dialog', { hasText: 'Keys' }).waitFor()
      await page.keyboard.press('Escape')
      await page.keyboard.press('/')
      expect(await page.evaluate('document.activeElement.id')).toBe('filter')
      await page.keyboard.press('Escape')
      expect(await page.evaluate(`document.activeElement.getAttribute('role')`)).toBe('grid')
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('ArrowDown')
      const active = await page.evaluate<string>(
        `document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).querySelector('.name').textContent`,
      )
      expect(active).toBe('b')
      await page.keyboard.press('Enter')
      await page.locator('h1', { hasText: /^b$/ }).waitFor()
      expect(await page.evaluate('document.activeElement.tagName')).toBe('H1')
      await page.keyboard.press('Tab')
      expect(await page.evaluate('document.activeElement.textContent')).toBe('Break…')
      await page.keyboard.press('Enter')
      await page.locator('dialog[open]').waitFor()
      await page.keyboard.type('stuck since noon')
      await page.keyboard.press('Tab')
      await page.keyboard.type('wrong')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Enter')
      await page.locator('.trouble', { hasText: 'type the name' }).waitFor()
      expect(service.posted).toEqual([])
      await page.keyboard.press('Shift+Tab')
      await page.keyboard.press('Shift+Tab')
      await page.keyboard.press('Control+A')
      await page.keyboard.type('b')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Enter')
      await page.locator('.notice').waitFor()
      expect(service.posted).toEqual(['/v1/locks/b/break {"reason":"stuck since noon","ref":"b"}'])
      await page.keyboard.press('Escape')
      // Back where one was.
      await page.locator('.row[aria-selected=true]', { hasText: 'b' }).waitFor()
      // Every view has one heading, and everything that can be focused can be seen and has a name.
      for (const path of ['locks', 'graph', 'activity', 'playground']) {
        await page.goto(`${service.url}/#/${path}`)
        expect(await page.locator('h1').count()).toBe(1)
        const unnamed = await page.evaluate(`[...document.querySelectorAll('a[href], button, input, select')]
        .filter((one) => one.checkVisibility() && !(one.textContent.trim() || one.ariaLabel || one.labels?.length))
        .map((one) => one.outerHTML)`)
        expect(unnamed).toEqual([])
      }
    })

    it('shows a deadlock in red and says what it is', async () => {
      const [one, two] = ['a', 'b'].map((host, pid) =>
        claim(host, { owner: { host, pid: pid + 1, client: 'x' } }),
      )
      if (one === undefined || two === undefined) throw new Error('There are two.')
      const locks = [
        mutex('A', [one], [two]),
        mutex('B', [two], [one]),
        mutex('calm', [claim('c')], [claim('d', { owner: { host: 'd', pid: 1, client: '' } })]),
      ]
      const cycle = [
        { waiter: one, waitsFor: 'B', heldBy: two },
        { waiter: two, waitsFor: 'A', heldBy: one },
      ]
      const { page, service } = await open({ locks, deadlocks: [{ certain: true, cycle }] })
      await page.locator('a.deadlocks.bad').click()
      await page
        .locator('.deadlock', { hasText: 'a · 1 · x waits for “B”, which b · 2 · x holds.' })
        .waitFor()
      expect(await page.locator('.node.red').count()).toBe(4)
      expect(await page.locator('.edge.red').count()).toBe(4)
      const colours = await page.evaluate<string[]>(
        `['.node.red rect', '.node.lock:not(.red) rect'].map((one) => getComputedStyle(document.querySelector(one)).stroke)`,
      )
      const [red = '', other = ''] = colours
      const [r = 0, g = 0, b = 0] = red.match(/\d+/g)?.map(Number) ?? []
      expect(r).toBeGreaterThan(2 * Math.max(g, b))
      expect(other).not.toBe(red)
      service.send('deadlocks', { deadlocks: [] })
      await expect.poll(() => page.locator('.red:not(.arrow):not(.swatch)').count(), POLL).toBe(0)
      await page.locator('.deadlock').waitFor({ state: 'detached' })
    })

    it('comes back by itself when the service does, with what there is then', async () => {
      const madeUp = { locks: [mutex('a', [claim('a')])] }
      const { page, service } = await open(madeUp)
      await page.locator('.connection[data-state=live]').waitFor()
      madeUp.locks = [mutex('b', [claim('b')])]
      service.cut()
      await rowOf(page, 'b').waitFor()
      await rowOf(page, 'a').waitFor({ state: 'detached' })
      await page.locator('.connection[data-state=live]').waitFor()
    })

    it('is readable on a phone and in both themes, and remembers the choice', async () => {
      const { page } = await open(
        { locks: manyLocks(30) },
        { viewport: { width: 375, height: 740 }, colorScheme: 'dark' },
      )
      await page.locator('.rows .row').first().waitFor()
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(375)
      const background = (): Promise<string> =>
        page.evaluate('getComputedStyle(document.body).backgroundColor')
      const dark = await background()
      await page.click('.theme')
      expect(await background()).not.toBe(dark)
      await page.reload()
      await page.locator('.rows .row').first().waitFor()
      expect(await background()).not.toBe(dark)
      await page.click('.theme')
      expect(await background()).toBe(dark)
      for (const scheme of ['light', 'dark']) {
        const poor = await page.evaluate(CONTRASTS.replace('SCHEME', scheme))
        expect(poor).toEqual([])
      }
    })
  },
)

/** Texts whose contrast to what is behind them is less than AA asks for. */
const CONTRASTS = `(() => {
  document.documentElement.dataset.theme = 'SCHEME'
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
  const rgb = (colour, under) => {
    canvas.fillStyle = under
    canvas.fillRect(0, 0, 1, 1)
    canvas.fillStyle = colour
    canvas.fillRect(0, 0, 1, 1)
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3)
  }
  const light = (parts) => {
    const [r, g, b] = parts.map((one) => (one /= 255) <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const behind = (element) => {
    const own = getComputedStyle(element).backgroundColor
    if (!own.endsWith(', 0)') && own !== 'transparent') return own
    return element.parentElement === null ? 'white' : behind(element.parentElement)
  }
  const poor = []
  for (const element of document.querySelectorAll('#app *')) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '')
    if (!text || !element.checkVisibility()) continue
    const under = behind(element)
    const [a, b] = [light(rgb(getComputedStyle(element).color, under)), light(rgb(under, 'white'))]
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    if (ratio < 4.5) poor.push(element.className + ' ' + element.textContent + ' ' + ratio.toFixed(2))
  }
  return poor
})()`
