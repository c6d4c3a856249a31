import { guardForm, idempotentFetch, isInFlight } from '/holdfast-browser.js'

/** Forms with a token of the server: they work without this script, too, which only keeps hasty people from waiting. */
for (const form of document.querySelectorAll('form[data-purpose]')) {
  guardForm(form, {
    field: 'token',
    // After the back button the page may be the old one, whose token was used.
    renewToken: async () => {
      const response = await fetch(`/tokens/${form.dataset.purpose}`, { method: 'POST' })
      return response.ok ? (await response.json()).token : ''
    },
  })
}

const INTENT = 'quick-order'
const WISH = 'shop:wish'

const quick = document.querySelector('#quick')
if (quick !== null) {
  const guard = guardForm(quick, { sentByScript: true })
  const output = quick.querySelector('output')

  /** The same intent has one key, and must have one content: it is kept as long as the key is. */
  const order = async () => {
    output.value = 'ordering'
    try {
      const response = await idempotentFetch(
        '/api/orders',
        {
          method: 'POST',
          headers: { 'Content-Type': 'application/json' },
          body: sessionStorage.getItem(WISH),
        },
        {
          intent: INTENT,
          onRetry: () => {
            output.value = 'still ordering'
          },
        },
      )
      const answer = await response.json()
      output.value = response.ok ? `ordered ${answer.orderId}` : `not ordered: ${answer.title}`
    } catch {
      output.value = 'no answer; reload this page to try again'
    }
    guard.release({ newIntent: true })
  }

  quick.addEventListener('submit', (event) => {
    event.preventDefault()
    const fields = new FormData(quick)
    const wish = { item: Number(fields.get('item')), quantity: Number(fields.get('quantity')) }
    if (!isInFlight(INTENT)) sessionStorage.setItem(WISH, JSON.stringify(wish))
    void order()
  })

  if (isInFlight(INTENT)) void order()
}
