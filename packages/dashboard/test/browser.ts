/** A browser, and pages of it that tell of everything they should not have done. */

import { type browserFor, CHROMIUM_FLAGS } from 'holdfast-servers'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'

/** For loaded machines; nothing is judged by it. */
export const PATIENCE_MS = 120_000

export const POLL = { timeout: PATIENCE_MS / 2 }

export async function openBrowser(found: ReturnType<typeof browserFor>): Promise<Browser> {
  if (found.kind === 'not run') throw new Error('There is no browser.')
  return await chromium.launch({ executablePath: found.path, headless: true, args: [...CHROMIUM_FLAGS] })
}

/** What runs in the page is text here, since only the page knows what a page has. */
const TELL_POLICY = `addEventListener('securitypolicyviolation', (event) => {
  console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI)
})`

export interface Opened {
  readonly page: Page
  /** Messages, errors, dialogs and requests to anywhere else. It must stay empty. */
  readonly misdeeds: string[]
}

export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1_280, height: 800 }, ...options })
  context.setDefaultTimeout(PATIENCE_MS / 2)
  const page = await context.newPage()
  const misdeeds: string[] = []
  page.on('console', (message) => {
    // The browser itself notes every request that was refused or cut off; the page says nothing.
    if (!message.text().startsWith('Failed to load resource')) misdeeds.push(`console: ${message.text()}`)
  })
  page.on('pageerror', (error) => misdeeds.push(`error: ${error.message}`))
  page.on('dialog', (dialog) => {
    misdeeds.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) misdeeds.push(`request: ${request.url()}`)
  })
  await page.addInitScript(TELL_POLICY)
  await page.goto(url)
  return { page, misdeeds }
}

/** A row of the table of locks, by the whole name. */
export function rowOf(page: Page, name: string) {
  const link = page.locator('.name').filter({ hasText: new RegExp(`^${escapeRegExp(name)}$`) })
  return page.locator('.rows .row').filter({ has: link })
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
