import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { browserFor, CHROMIUM_FLAGS } from 'holdfast-servers'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { type ReportInput, writeReport } from '../../src/report/report.js'
import { madeUpRun } from './made-up-run.js'

/** For loaded machines; nothing is judged by it. */
const PATIENCE_MS = 120_000

const POLL = { timeout: PATIENCE_MS / 2 }

/** What runs in the page is text here, since only the page knows what a page has. */
const TELL_POLICY = `addEventListener('securitypolicyviolation', (event) => {
  console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI)
})`
const COLOURS = `(() => {
  const canvas = document.querySelector('canvas')
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
  const colours = new Set()
  for (let at = 0; at < data.length; at += 4) colours.add(data.slice(at, at + 3).join())
  return [...colours]
})()`

/** It would end the element that it stands in, and begin another. */
const TITLE = '</title></script><script>alert(3)</script>'

const SMALL = madeUpRun({
  resources: ['invoice:7', 'slots'],
  processes: 2,
  callersEach: 2,
  roundsEach: 6,
  faults: 4,
  violations: 3,
})

const browser = browserFor()

describe.skipIf(browser.kind === 'not run')(
  titled('the page of a report, in Chromium', browser.kind === 'not run' ? browser.reason : null),
  () => {
    let folder: string
    let context: BrowserContext

    beforeAll(async () => {
      if (browser.kind === 'not run') return
      folder = await mkdtemp(join(tmpdir(), 'holdfast-report-'))
      context = await chromium.launchPersistentContext(join(folder, 'user-data'), {
        executablePath: browser.path,
        headless: true,
        viewport: { width: 1400, height: 900 },
        args: [...CHROMIUM_FLAGS],
      })
      context.setDefaultTimeout(PATIENCE_MS / 2)
    })

    afterAll(async () => {
      await context?.close()
      if (folder !== undefined) await rm(folder, { recursive: true, force: true })
    })

    /** Opens a report and gives the page with everything that it should not have done. */
    async function open(name: string, input: ReportInput): Promise<{ page: Page; misdeeds: string[] }> {
      const file = join(folder, `${name}.html`)
      await writeReport(file, input)
      const url = pathToFileURL(file).href
      const page = await context.newPage()
      const misdeeds: string[] = []
      page.on('console', (message) => misdeeds.push(`console: ${message.text()}`))
      page.on('pageerror', (error) => misdeeds.push(`error: ${error.message}`))
      page.on('dialog', (dialog) => {
        misdeeds.push(`dialog: ${dialog.message()}`)
        void dialog.dismiss()
      })
      page.on('request', (request) => {
        if (request.url() !== url) misdeeds.push(`request: ${request.url()}`)
      })
      await page.addInitScript({ content: TELL_POLICY })
      await page.goto(url)
      await page.waitForSelector('main[data-ready]', { state: 'attached' })
      await page.waitForSelector('canvas[data-holds]', { state: 'attached' })
      return { page, misdeeds }
    }

    async function numbersOf(page: Page): Promise<Record<string, number>> {
      const data: Record<string, string> = await page.evaluate(
        '({ ...document.querySelector("canvas").dataset })',
      )
      return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, Number(value)]))
    }

    it('draws all there is, and loads nothing, breaks no policy and logs no error', async () => {
      const { page, misdeeds } = await open('small', SMALL)
      const numbers = await numbersOf(page)
      // Two resources with four callers each, each of them six times.
      expect(numbers).toMatchObject({ rows: 10, holds: 48, waits: 48, bands: 4, bads: 3, chosen: -1 })
      expect(numbers['marks']).toBe(SMALL.verdict.counts.lost)
      expect(await page.locator('#violations tr').count()).toBe(3)
      expect(await page.locator('#faults tr').count()).toBe(4)
      expect(await page.locator('.chart > svg .fault').count()).toBe(8)
      expect(await page.locator('.chart path.p99').getAttribute('d')).toMatch(/^M/)
      expect(await page.locator('.verdict').getAttribute('data-state')).toBe('failed')
      expect(await page.locator('.verdict').textContent()).toContain('Failed: 2 violations')
      for (const colorScheme of ['dark', 'light'] as const) await page.emulateMedia({ colorScheme })
      await page.emulateMedia({ media: 'print' })
      expect(misdeeds).toEqual([])
      await page.close()
    })

    it('has pixels of the colours of holds, faults and violations', async () => {
      const { page } = await open('colours', SMALL)
      await page.emulateMedia({ colorScheme: 'light' })
      const seen = async (): Promise<boolean[]> => {
        const colours = new Set(await page.evaluate<string[]>(COLOURS))
        return ['47,109,181', '44,148,128', '196,18,47'].map((colour) => colours.has(colour))
      }
      await expect.poll(seen, POLL).toEqual([true, true, true])
      await page.close()
    })

    it('shows a violation when it is clicked, with its row in view, whatever was filtered', async () => {
      const { page, misdeeds } = await open('click', SMALL)
      await page.locator('#resource-filter').fill('slots')
      await expect.poll(async () => (await numbersOf(page))['rows'], POLL).toBe(5)
      const before = await numbersOf(page)
      await page.locator('[data-violation="1"]').click()
      await expect.poll(async () => (await numbersOf(page))['chosen'], POLL).toBe(1)
      const after = await numbersOf(page)
      const start = SMALL.events[0]?.t ?? 0
      const involved = SMALL.verdict.violations[1]?.involved?.[0]
      expect(after['from']).toBeLessThan((involved?.from ?? 0) - start)
      expect(after['to']).toBeGreaterThan((involved?.to ?? 0) - start)
      expect(width(after)).toBeLessThan(width(before) / 2)
      expect(after['bads']).toBeGreaterThanOrEqual(1)
      expect(await page.locator('#live').textContent()).toContain('fence-order')
      await page.locator('#zoom-all').click()
      await expect.poll(async () => width(await numbersOf(page)), POLL).toBe(width(before))
      expect(misdeeds).toEqual([])
      await page.close()
    })

    it('can be used with the keyboard, the wheel and by dragging', async () => {
      const { page, misdeeds } = await open('keys', SMALL)
      const whole = await numbersOf(page)
      await page.locator('canvas').focus()
      await page.keyboard.press('+')
      await expect.poll(async () => width(await numbersOf(page)), POLL).toBeLessThan(width(whole))
      const closer = await numbersOf(page)
      await page.keyboard.press('ArrowRight')
      await expect
        .poll(async () => (await numbersOf(page))['from'], POLL)
        .toBeGreaterThan(closer['from'] ?? 0)
      await page.keyboard.press('ArrowDown')
      expect(await page.locator('#live').textContent()).toContain('Resource invoice:7')
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('n')
      expect(await page.locator('#live').textContent()).toMatch(
        /w0\.0#1 held invoice:7.*exclusive.*fence \d+/,
      )
      await page.keyboard.press('ArrowUp')
      await page.keyboard.press('Enter')
      await expect.poll(async () => (await numbersOf(page))['rows'], POLL).toBe(6)
      await page.keyboard.press('0')
      await expect.poll(async () => width(await numbersOf(page)), POLL).toBe(width(whole))
      const box = await page.locator('canvas').boundingBox()
      if (box === null) throw new Error('the canvas is not to be seen')
      await page.mouse.move(box.x + 500, box.y + 100)
      await page.mouse.down()
      await page.mouse.move(box.x + 700, box.y + 100, { steps: 4 })
      await page.mouse.up()
      await expect.poll(async () => width(await numbersOf(page)), POLL).toBeLessThan(width(whole) / 4)
      const dragged = width(await numbersOf(page))
      await page.keyboard.down('Control')
      await page.mouse.wheel(0, 300)
      await page.keyboard.up('Control')
      await expect.poll(async () => width(await numbersOf(page)), POLL).toBeGreaterThan(dragged)
      expect(misdeeds).toEqual([])
      await page.close()
    })

    it('copies the command as it was given', async () => {
      const command = `npx holdfast torture redis --seed 42 --faults 'kill,cut' --note "a & b <c>"`
      const { page, misdeeds } = await open('copy', { ...SMALL, command })
      await page.locator('#copy').click()
      await expect.poll(async () => page.locator('#copy').textContent(), POLL).toBe('Copied')
      await page.locator('#process-filter').focus()
      await page.keyboard.press('Control+V')
      expect(await page.locator('#process-filter').inputValue()).toBe(command)
      expect(misdeeds).toEqual([])
      await page.close()
    })

    it('shows hostile names as text, and runs none of them', async () => {
      const hostile = [
        '<img src=x onerror=alert(1)>',
        '</script><script>alert(2)</script>',
        '<!--<script>',
        `"'&lt;`,
        'a\u202egnp.exe',
        'line\u2028end',
        '__proto__',
        'constructor',
        '\0\x1b[31m',
        'x'.repeat(20_000),
      ]
      const run = madeUpRun({
        resources: hostile,
        processes: 1,
        callersEach: 1,
        roundsEach: 2,
        faults: 0,
        violations: 0,
      })
      const [base] = SMALL.verdict.violations
      if (base === undefined) throw new Error('the small run has violations')
      const violations = hostile.map((name) => ({ ...base, resource: name, message: name, admitted: name }))
      const events = [
        ...run.events.map((event) => ({ ...event, p: `${event.k}.1` })),
        ...hostile.map((name, index) => ({
          t: (run.events.at(-1)?.t ?? 0) + index,
          p: name,
          k: '',
          f: 'fault-begin' as const,
          type: 'note' as const,
          v: { fault: name, target: name },
        })),
      ]
      const { page, misdeeds } = await open('hostile', {
        ...run,
        events,
        title: TITLE,
        command: hostile[1] ?? '',
        store: hostile[0] ?? '',
        recipe: hostile[2] ?? '',
        notes: hostile,
        verdict: { ...run.verdict, violations, undecided: hostile },
      })
      expect(await page.title()).toBe(TITLE)
      expect(await page.locator('h1').textContent()).toBe(TITLE)
      const rows = await page.locator('#violations tr td:nth-child(3)').allTextContents()
      expect(rows.slice(0, 9)).toEqual([
        ...hostile.slice(0, 4),
        'a\\u{202e}gnp.exe',
        'line\\u{2028}end',
        '__proto__',
        'constructor',
        '\\u{0}\\u{1b}[31m',
      ])
      expect(await page.locator('#faults tr').count()).toBe(hostile.length)
      expect(await page.locator('img, iframe, object, a, main script').count()).toBe(0)
      expect(await page.locator('script').count()).toBe(2)
      for (let at = 0; at < hostile.length; at += 1) await page.locator(`[data-violation="${at}"]`).click()
      const box = await page.locator('canvas').boundingBox()
      for (let y = 0; y < (box?.height ?? 0); y += 12)
        await page.mouse.move((box?.x ?? 0) + 60, (box?.y ?? 0) + y)
      expect(misdeeds).toEqual([])
      // A page that is broader than its window was broken by the long name.
      expect(await page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')).toBe(true)
      await page.close()
    })

    it('stays usable with two hundred thousand events', async () => {
      const run = madeUpRun({
        resources: ['a', 'b', 'c', 'd', 'e'],
        processes: 5,
        callersEach: 4,
        roundsEach: 520,
        faults: 60,
        violations: 40,
      })
      expect(run.events.length).toBeGreaterThan(200_000)
      const { page, misdeeds } = await open('large', run)
      const whole = await numbersOf(page)
      expect(whole['holds']).toBeGreaterThan(10_000)
      await page.locator('[data-violation="3"]').click()
      await expect.poll(async () => (await numbersOf(page))['chosen'], POLL).toBe(3)
      expect(width(await numbersOf(page))).toBeLessThan(width(whole) / 100)
      await page.locator('#by').selectOption('process')
      await page.locator('#zoom-all').click()
      await expect.poll(async () => width(await numbersOf(page)), POLL).toBe(width(whole))
      expect(misdeeds).toEqual([])
      await page.close()
    })

    it('says so when nothing was asked for', async () => {
      const verdict = { valid: true, violations: [], undecided: [], counts: SMALL.verdict.counts }
      const { page, misdeeds } = await open('empty', { ...SMALL, events: [], verdict })
      expect(await numbersOf(page)).toMatchObject({ rows: 0, holds: 0 })
      expect(await page.locator('.verdict').getAttribute('data-state')).toBe('passed')
      expect(misdeeds).toEqual([])
      await page.close()
    })
  },
)

function width(numbers: Record<string, number>): number {
  return Math.round((numbers['to'] ?? 0) - (numbers['from'] ?? 0))
}
