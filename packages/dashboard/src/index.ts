import { createHash } from 'node:crypto'
import { source as icon } from './page/icon.svg?text'
import { source as html } from './page/index.html?text'
import { source as script } from './page/main.ts?minified'
import { source as base } from './page/style-base.css?text'
import { source as parts } from './page/style-parts.css?text'
import { source as views } from './page/style-views.css?text'
import { source as theme } from './page/theme.ts?minified'

/** One file of the dashboard, as it is to be served. */
export interface StaticPage {
  /** The path that it is served at; its name changes with its content, except for that of the page itself. */
  readonly path: string
  /** The value of the header `Content-Type`. */
  readonly type: string
  readonly body: Buffer
  /** The value of the header `ETag`, with its quotes. */
  readonly etag: string
  /** Whether the path names this content for ever, so that it need never be asked for again. */
  readonly immutable: boolean
}

/** All files of the dashboard. They ask for nothing but each other and the routes of the service that serves them. */
export const pages: readonly StaticPage[] = makePages()

function makePages(): StaticPage[] {
  const assets = {
    icon: asset('icon', 'svg', 'image/svg+xml', icon),
    style: asset('style', 'css', 'text/css; charset=utf-8', withoutComments(base + parts + views)),
    theme: asset('theme', 'js', 'text/javascript; charset=utf-8', theme),
    app: asset('app', 'js', 'text/javascript; charset=utf-8', script),
  }
  const page = html.replace(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const found = Object.entries(assets).find(([key]) => key === name)
    if (found === undefined) throw new Error(`The page names the file '${name}', which does not exist.`)
    return found[1].path.slice(1)
  })
  const body = Buffer.from(page, 'utf8')
  const document: StaticPage = {
    path: '/',
    type: 'text/html; charset=utf-8',
    body,
    etag: `"${digestOf(body)}"`,
    immutable: false,
  }
  return [document, ...Object.values(assets)]
}

function asset(name: string, extension: string, type: string, text: string): StaticPage {
  const body = Buffer.from(text, 'utf8')
  const digest = digestOf(body)
  return { path: `/assets/${name}-${digest}.${extension}`, type, body, etag: `"${digest}"`, immutable: true }
}

function digestOf(body: Buffer): string {
  return createHash('sha256').update(body).digest('hex').slice(0, 16)
}

/** The style sheets are written for people; who loads the page needs neither their comments nor their indentation. */
function withoutComments(css: string): string {
  return css.replace(/\/\*[\s\S]*?\*\//g, '').replace(/\s*\n\s*/g, '\n')
}
