/** The pages. Whatever is put into one is escaped where it is put in, so nothing can be forgotten. */

/** Markup that is safe as it is. */
export class Markup {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Part = Markup | readonly Markup[] | string | number

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (found) => ESCAPES[found] ?? '')
}

function html(pieces: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  const texts = pieces.map((piece, at) => piece + (at < parts.length ? textOf(parts[at] ?? '') : ''))
  return new Markup(texts.join(''))
}

function textOf(part: Part): string {
  if (part instanceof Markup) return part.text
  if (typeof part === 'object') return part.map((one) => one.text).join('\n')
  return escaped(String(part))
}

/** Nothing is loaded from elsewhere, and nothing in a page runs unless it is one of the two files. */
export const SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

function page(title: string, content: Markup): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<link rel="stylesheet" href="/shop.css">
<script type="module" src="/shop.js"></script>
</head>
<body>
<h1>${title}</h1>
${content}
</body>
</html>
`.text
}

export interface ItemRow {
  readonly id: number
  readonly name: string
  readonly stock: number
  readonly capacity: number
}

export interface OrderRow {
  readonly id: string
  readonly name: string
  readonly quantity: number
}

export interface FrontPage {
  readonly items: readonly ItemRow[]
  readonly orders: readonly OrderRow[]
  readonly orderToken: string
  readonly restockToken: string
}

export function frontPage({ items, orders, orderToken, restockToken }: FrontPage): string {
  const options = items.map((item) => html`<option value="${item.id}">${item.name}</option>`)
  return page(
    'Chandlery',
    html`<table id="items">
<tr><th>item</th><th>in stock</th></tr>
${items.map((item) => html`<tr><td>${item.name}</td><td>${item.stock} of ${item.capacity}</td></tr>`)}
</table>

<h2>Order</h2>
<p>A form with a token. Click as often as you like: it is one order.</p>
<form id="order" method="post" action="/orders" data-purpose="order">
<input type="hidden" name="token" value="${orderToken}" autocomplete="off">
<select name="item" aria-label="item">${options}</select>
<input name="quantity" value="1" size="3" inputmode="numeric" aria-label="quantity">
<button name="gift" value="no">Order</button>
<button name="gift" value="yes">Order as a gift</button>
<p class="stale">This form was sent. <a href="/">Load it again</a> to order once more.</p>
</form>

<h2>Order by script</h2>
<p>A request with a key. Reload the page while it is on its way: it goes on with the same key.</p>
<form id="quick">
<select name="item" aria-label="item">${options}</select>
<input name="quantity" value="1" size="3" inputmode="numeric" aria-label="quantity">
<button>Order</button>
<output></output>
</form>

<h2>Restock</h2>
<p>Slow, so a lock is held, and the row refuses whoever has lost it.</p>
<form id="restock" method="post" action="/restock" data-purpose="restock">
<input type="hidden" name="token" value="${restockToken}" autocomplete="off">
<select name="item" aria-label="item">${options}</select>
<button>Fill up</button>
</form>

<h2>Your orders</h2>
<ul id="orders">
${orders.map((order) => html`<li><a href="/orders/${order.id}">${order.quantity} × ${order.name}</a></li>`)}
</ul>`,
  )
}

export function orderPage(order: OrderRow): string {
  return page(
    'Thank you',
    html`<p id="bought">${order.quantity} × ${order.name}</p>
<p>Order <code id="order-id">${order.id}</code>. Loading this page again orders nothing. <a href="/">Back to the shop</a></p>`,
  )
}

export function messagePage(title: string, text: string): string {
  return page(title, html`<p id="message">${text}</p><p><a href="/">Back to the shop</a></p>`)
}
