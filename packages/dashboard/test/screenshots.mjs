// @ts-check
// Makes the pictures of the documentation from a service with living locks: node test/screenshots.mjs [folder]

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { browserFor, CHROMIUM_FLAGS } from 'holdfast-servers'
import { createService } from 'holdfast-service'
import { chromium } from 'playwright-core'
import { startLivingDemo } from './living-demo.mjs'
import { smallPng } from './small-png.mjs'

const VIEWS = [
  { name: 'locks', path: 'locks', ready: '.rows .row' },
  { name: 'lock', path: `lock/${encodeURIComponent('stock:sku-4711')}`, ready: '.span.hold' },
  { name: 'graph', path: 'graph', ready: '.node.red' },
  { name: 'activity', path: 'activity', ready: '.chart-line' },
]
const SIZES = [
  { name: 'desktop', viewport: { width: 1_360, height: 850 }, deviceScaleFactor: 1 },
  { name: 'phone', viewport: { width: 375, height: 760 }, deviceScaleFactor: 2 },
]
const SCHEMES = /** @type {const} */ (['light', 'dark'])
/** What a picture may weigh in a repository that everybody clones. */
const BYTES_MAX = 200_000
/** Long enough for a timeline and charts that show something. */
const LIVE_MS = Number(process.env['HOLDFAST_DEMO_MS'] ?? 75_000)

/** For loaded machines. */
const PATIENCE_MS = 180_000

const folder = resolve(process.argv[2] ?? join(import.meta.dirname, '../../../docs/images'))
const found = browserFor()
if (found.kind === 'not run') throw new Error(`No pictures without a browser: ${found.reason}`)
await mkdir(folder, { recursive: true })
const temporary = await mkdtemp(join(tmpdir(), 'holdfast-screenshots-'))
const service = await createService({ url: `sqlite:${join(temporary, 'locks.db')}`, listen: { port: 0 } })
const browser = await chromium.launch({ executablePath: found.path, args: [...CHROMIUM_FLAGS] })
try {
  const url = await service.listen()
  const demo = startLivingDemo(url)
  // The charts know what happened since their page was opened, so all are opened first.
  const pages = await Promise.all(
    SIZES.map(async ({ name, ...how }) => {
      const page = await (await browser.newContext(how)).newPage()
      page.setDefaultTimeout(PATIENCE_MS)
      await page.goto(`${url}/`)
      return { page, name }
    }),
  )
  await new Promise((done) => setTimeout(done, LIVE_MS))
  for (const view of VIEWS) {
    for (const { page, name } of pages) {
      await page.goto(`${url}/#/${view.path}`)
      await page.locator(view.ready).first().waitFor()
      // Nobody is about to type.
      await page.evaluate('document.activeElement?.blur()')
      for (const colorScheme of SCHEMES) {
        await page.emulateMedia({ colorScheme })
        await page.waitForTimeout(1_500)
        await save(page, join(folder, `dashboard-${view.name}-${name}-${colorScheme}.png`))
      }
    }
  }
  demo.stop()
} finally {
  await browser.close()
  await service.close({ drainMs: 1_000 })
  await rm(temporary, { recursive: true, force: true })
}

/**
 * @param {import('playwright-core').Page} page
 * @param {string} path
 */
async function save(page, path) {
  const small = smallPng(await page.screenshot())
  await writeFile(path, small)
  const { length } = small
  console.log(`${path}: ${length} bytes`)
  if (length > BYTES_MAX) throw new Error(`${path} has ${length} bytes; ${BYTES_MAX} are the most.`)
}
