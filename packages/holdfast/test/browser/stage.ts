/** A browser, and a small server whose answers are told to it beforehand and which remembers what it was sent. */

import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import { type AddressInfo, createServer as createPlainServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { CHROMIUM_FLAGS } from 'holdfast-servers'
import { type Browser, type BrowserContext, chromium } from 'playwright-core'
import { build } from 'rolldown'

/** For loaded machines; nothing is judged by it. */
export const PATIENCE_MS = 120_000

/** The helper as a page gets it that was built for production. */
export async function minifiedHelper(): Promise<string> {
  const { output } = await build({
    input: fileURLToPath(new URL('../../src/browser.ts', import.meta.url)),
    platform: 'browser',
    write: false,
    output: { format: 'esm', minify: true },
    logLevel: 'silent',
  })
  if (output.length !== 1) throw new Error(`The helper must be one file and is ${output.length}.`)
  return output[0].code
}

export interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** In milliseconds, by the server's clock. */
  readonly at: number
}

export interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** `drop` closes the connection without an answer; `hang` leaves it open. */
export type Script = Answer | 'drop' | 'hang'

export interface Site {
  readonly url: string
  readonly sent: Sent[]
  /** Pages by path. */
  readonly pages: Map<string, string>
  /** What is answered to requests of a path other than GET, one after the other. The last one stays. */
  readonly answers: Map<string, Script[]>
  /** What was sent to a path, without the pages that were fetched. */
  to(path: string): Sent[]
  close(): Promise<void>
}

/** `unsafe-eval` is for the tests, which look into the page by text. The helper needs none of it. */
const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; connect-src *",
}

export async function openSite(helper: string): Promise<Site> {
  const sent: Sent[] = []
  const pages = new Map<string, string>()
  const answers = new Map<string, Script[]>()
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://localhost').pathname
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('error', () => response.destroy())
    request.on('end', () => {
      if (request.method === 'GET') {
        const page = pages.get(path)
        if (path === '/browser.js') response.writeHead(200, { 'content-type': 'text/javascript' }).end(helper)
        else response.writeHead(page === undefined ? 404 : 200, PAGE_HEADERS).end(page ?? '')
        return
      }
      const body = Buffer.concat(chunks).toString('latin1')
      sent.push({
        method: request.method ?? '',
        path,
        headers: request.headers,
        body,
        at: performance.now(),
      })
      const script = answers.get(path) ?? []
      const answer = (script.length > 1 ? script.shift() : script[0]) ?? { status: 200 }
      if (answer === 'hang') return
      if (answer === 'drop') return void request.socket.destroy()
      response
        .writeHead(answer.status, { 'content-type': 'text/html; charset=utf-8', ...answer.headers })
        .end(answer.body ?? '')
    })
  })
  const port = await listen(server)
  return {
    url: `http://127.0.0.1:${port}`,
    sent,
    pages,
    answers,
    to: (path) => sent.filter((one) => one.path === path),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  return (server.address() as AddressInfo).port
}

/** A port that nobody listens on, as far as anybody can know. */
export async function deadPort(): Promise<number> {
  const server = createPlainServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

export async function openBrowser(executablePath: string, cachesPages = true): Promise<Browser> {
  return await chromium.launch({
    executablePath,
    headless: true,
    // Playwright switches the back-forward cache off, which is one of the things to be tested.
    ignoreDefaultArgs: cachesPages ? ['--disable-back-forward-cache'] : [],
    args: [...CHROMIUM_FLAGS],
  })
}

export async function openContext(browser: Browser, scripts = true): Promise<BrowserContext> {
  const context = await browser.newContext({ javaScriptEnabled: scripts })
  context.setDefaultTimeout(PATIENCE_MS / 2)
  return context
}
