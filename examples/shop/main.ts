/** Starts the shop: `npm run shop`. DATABASE_URL and PORT say where. */

import { fileURLToPath } from 'node:url'
import { startShop } from './app.js'

const shop = await startShop({
  url: process.env['DATABASE_URL'] ?? 'sqlite:shop.db',
  port: Number(process.env['PORT'] ?? 8080),
  // From where this file is when it is built: shop/dist.
  publicFolder: fileURLToPath(new URL('../public', import.meta.url)),
  browserScript: fileURLToPath(import.meta.resolve('holdfast/browser')),
})
console.log(`The shop is open: ${shop.url}`)

const stop = (): void => {
  void shop.close()
}
process.once('SIGINT', stop)
process.once('SIGTERM', stop)
