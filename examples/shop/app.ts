/** An order service in which the same click, request or form has its effect once. */

import { randomUUID } from 'node:crypto'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type NextFunction, type Request, type Response } from 'express'
import { connect, type Locks } from 'holdfast'
import { expressIdempotency, idempotencyOf, redirectAfterPost } from 'holdfast/http'
import { connectIdempotency, createTokens, type Idempotency, type Tokens } from 'holdfast/idempotency'
import { openDatabase, type ShopDatabase } from './database.js'
import { placeOrder, type Wish } from './orders.js'
import { frontPage, type ItemRow, messagePage, type OrderRow, orderPage, SECURITY_POLICY } from './pages.js'
import { Payments } from './payments.js'
import { outcomeOf, statusOf, titleOf } from './refusals.js'
import { restock } from './restock.js'

export interface ShopOptions {
  /** `sqlite:<path>` or `postgres://…`: the tables of the shop, its locks and its records. */
  readonly url: string
  /** 0: any that is free. */
  readonly port: number
  /** The file of `holdfast/browser`. */
  readonly browserScript: string
  /** The folder of the page's own script and style. */
  readonly publicFolder: string
  /** How long a payment and a delivery take. Default 1.5 s. */
  readonly delayMs?: number
}

export interface Shop {
  readonly url: string
  readonly database: ShopDatabase
  readonly payments: Payments
  close(): Promise<void>
}

interface Parts {
  readonly database: ShopDatabase
  readonly locks: Locks
  readonly idempotency: Idempotency
  readonly tokens: Tokens
  readonly payments: Payments
  readonly delayMs: number
}

/** Whoever sends the same form again while it is worked on waits for what comes of it, and gets that. */
const PATIENT = { inFlight: { waitMs: 20_000 } } as const

export async function startShop(options: ShopOptions): Promise<Shop> {
  const { url, port, delayMs = 1_500 } = options
  const database = await openDatabase(url)
  // In SQLite, locks and records are a file of their own beside the shop's.
  const own = url.startsWith('sqlite:') ? `${url}-holdfast` : url
  const locks = await connect(own)
  await locks.migrate()
  const idempotency = await connectIdempotency(own)
  await idempotency.migrate()
  const payments = new Payments(delayMs)
  const tokens = createTokens(idempotency, { strategy: 'promote' })
  const app = routes({ database, locks, idempotency, tokens, payments, delayMs }, options)
  const server = await new Promise<Server>((resolve, reject) => {
    const starting = app.listen(port, '127.0.0.1', (error) => {
      if (error === undefined) resolve(starting)
      else reject(error)
    })
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    database,
    payments,
    async close() {
      server.closeIdleConnections()
      await new Promise((resolve) => server.close(resolve))
      await idempotency.close()
      await locks.close()
      await database.close()
    },
  }
}

function routes(
  parts: Parts,
  { browserScript, publicFolder }: Pick<ShopOptions, 'browserScript' | 'publicFolder'>,
): express.Express {
  const app = express()
  app.disable('x-powered-by')
  app.use((_request, response, next) => {
    response.set({
      'Content-Security-Policy': SECURITY_POLICY,
      'X-Content-Type-Options': 'nosniff',
      'Referrer-Policy': 'same-origin',
    })
    next()
  })
  app.get('/holdfast-browser.js', (_request, response) => response.sendFile(browserScript))
  app.use(express.static(publicFolder, { index: false }))
  app.use(session)
  addPages(app, parts)
  addForms(app, parts)
  addApi(app, parts)
  app.use((_request, response) => {
    response.status(404).send(messagePage('Not found', 'There is no such page.'))
  })
  app.use(refuse)
  return app
}

const SESSION = /(?:^|;\s*)shop=([\da-f-]{36})(?:;|$)/

/** Who somebody is. A real shop has a login; here it is a cookie that nobody can guess, and no other site can use. */
function session(request: Request, response: Response, next: NextFunction): void {
  const known = SESSION.exec(request.headers.cookie ?? '')?.[1]
  const buyer = known ?? randomUUID()
  response.locals['buyer'] = buyer
  // What is shown belongs to one person, and has tokens in it.
  response.set('Cache-Control', 'no-store')
  if (known === undefined) response.cookie('shop', buyer, { httpOnly: true, sameSite: 'strict' })
  next()
}

const buyerOf = (response: Response): string => String(response.locals['buyer'])

function addPages(app: express.Express, { database, tokens }: Parts): void {
  app.get('/', async (_request, response) => {
    const buyer = buyerOf(response)
    const [items, orders, order, restocking] = await Promise.all([
      database.read<ItemRow>('SELECT id, name, stock, capacity FROM items ORDER BY id'),
      database.read<OrderRow>(`${ORDERS} WHERE o.buyer = ?`, [buyer]),
      tokens.issue({ subject: buyer, purpose: 'order' }),
      tokens.issue({ subject: buyer, purpose: 'restock' }),
    ])
    response.send(frontPage({ items, orders, orderToken: order.token, restockToken: restocking.token }))
  })

  app.get('/orders/:id', async (request, response, next) => {
    const [order] = await database.read<OrderRow>(`${ORDERS} WHERE o.buyer = ? AND o.id = ?`, [
      buyerOf(response),
      request.params.id,
    ])
    if (order === undefined) next()
    else response.send(orderPage(order))
  })

  app.post('/tokens/:purpose', async (request, response, next) => {
    const { purpose } = request.params
    if (purpose !== 'order' && purpose !== 'restock') return next()
    response.json({ token: (await tokens.issue({ subject: buyerOf(response), purpose })).token })
  })
}

const ORDERS = 'SELECT o.id, i.name, o.quantity FROM orders o JOIN items i ON i.id = o.item'

/** POST, redirect, GET: the token becomes the record of the order, so that sending it again leads to the same page. */
function addForms(app: express.Express, parts: Parts): void {
  const form = express.urlencoded({ extended: false, limit: '8kb' })

  app.post('/orders', form, async (request, response) => {
    const wish = wishOf(request.body)
    const buyer = buyerOf(response)
    if (wish === null) return invalid(response)
    const { value } = await parts.tokens.run(
      fieldOf(request.body, 'token'),
      { subject: buyer, purpose: 'order', input: wish },
      (attempt) => placeOrder(parts, buyer, wish, attempt),
      PATIENT,
    )
    redirectAfterPost(response, `/orders/${value.orderId}`)
  })

  app.post('/restock', form, async (request, response) => {
    const item = numberOf(request.body, 'item')
    const buyer = buyerOf(response)
    if (item === null) return invalid(response)
    await parts.tokens.run(
      fieldOf(request.body, 'token'),
      { subject: buyer, purpose: 'restock', input: { item } },
      (attempt) => restock(parts, { item, buyer, key: attempt.childKey('delivery'), delayMs: parts.delayMs }),
      PATIENT,
    )
    redirectAfterPost(response, '/')
  })
}

/** The same for programs: the client names its request with a key, and the answer to it is kept. */
function addApi(app: express.Express, parts: Parts): void {
  const once = expressIdempotency(parts.idempotency, {
    scope: (request) => {
      const { locals } = (request as Request).res as Response
      return { tenant: String(locals['buyer']), operation: 'order.create' }
    },
  })
  // What is invalid is refused before a key is claimed for it.
  const valid = (request: Request, response: Response, next: NextFunction): void => {
    if (wishOf(request.body) === null) response.status(400).json({ title: 'The order is not valid.' })
    else next()
  }
  app.post('/api/orders', express.json({ limit: '8kb' }), valid, once, async (request, response) => {
    const wish = wishOf(request.body)
    const attempt = idempotencyOf(request)
    if (wish === null || attempt === undefined) throw new TypeError('It was checked before.')
    try {
      const { orderId } = await placeOrder(parts, buyerOf(response), wish, attempt)
      response.status(201).location(`/orders/${orderId}`).json({ orderId })
    } catch (error) {
      const status = statusOf(error)
      if (status >= 500) throw error
      response.status(status).json({ title: titleOf(error) })
    }
  })
}

function fieldOf(body: unknown, name: string): unknown {
  return typeof body === 'object' && body !== null ? Reflect.get(body, name) : undefined
}

function numberOf(body: unknown, name: string): number | null {
  const value = fieldOf(body, name)
  return /^[1-9]\d{0,2}$/.test(String(value)) ? Number(value) : null
}

function wishOf(body: unknown): Wish | null {
  const item = numberOf(body, 'item')
  const quantity = numberOf(body, 'quantity')
  return item === null || quantity === null ? null : { item, quantity }
}

function invalid(response: Response): void {
  response.status(400).send(messagePage('Not valid', 'Give an item and a number from 1 to 999.'))
}

/** Express tells it by its four parameters. */
function refuse(error: unknown, request: Request, response: Response, next: NextFunction): void {
  if (response.headersSent) return next(error)
  const status = statusOf(error)
  if (status >= 500) console.error(error)
  response.status(status).send(messagePage(titleOf(error), outcomeOf(error, request.method)))
}
