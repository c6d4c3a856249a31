/** Pages in a browser of the test's own, each over a service that says what it is told to. */

import type { browserFor } from 'holdfast-servers'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { type Opened, openBrowser, openPage } from './browser.js'
import { type MadeUp, type MadeUpService, startMadeUpService } from './made-up-service.js'

export interface MadeUpPage {
  readonly page: Page
  readonly service: MadeUpService
}

/** To be called where tests are described. After each test all is closed, and no page may have done what it should not. */
export function makeUpPages(
  found: ReturnType<typeof browserFor>,
): (madeUp: MadeUp, options?: Parameters<typeof openPage>[2]) => Promise<MadeUpPage> {
  let browser: Browser
  const services: MadeUpService[] = []
  const opened: Opened[] = []

  beforeAll(async () => {
    browser = await openBrowser(found)
  })

  afterEach(async () => {
    const misdeeds = opened.flatMap((one) => one.misdeeds)
    for (const { page } of opened.splice(0)) await page.context().close()
    for (const service of services.splice(0)) await service.close()
    expect(misdeeds).toEqual([])
  })

  afterAll(async () => {
    await browser?.close()
  })

  return async (madeUp, options = {}) => {
    const service = await startMadeUpService(madeUp)
    services.push(service)
    const one = await openPage(browser, `${service.url}/${madeUp.path ?? ''}`, options)
    opened.push(one)
    return { service, page: one.page }
  }
}
