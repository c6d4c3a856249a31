// @ts-check
// Locks that live: holders that renew, lines that move, one that is lost now and then, and a deadlock, all through the
// service's own HTTP, as programs in other languages would.

/** @typedef {{ host: string, pid: number, client: string }} Owner */

/** @param {number} ms */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms).unref())

/**
 * Fills a service. Returns how to stop.
 * @param {string} url
 * @returns {{ stop(): void }}
 */
export function startLivingDemo(url) {
  let on = true
  /**
   * @param {string} name
   * @param {string} verb
   * @param {object} body
   */
  const post = async (name, verb, body) => {
    const path = `${url}/v1/locks/${encodeURIComponent(name)}/${verb}`
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
    return { status: answer.status, body: /** @type {{ claim: string }} */ (await answer.json()) }
  }
  /**
   * Takes a lock, keeps it for so long, gives it back, rests, and so on.
   * @param {string} name
   * @param {Owner} owner
   * @param {{ holdMs: number, restMs: number, ttlMs?: number, lose?: number, body?: object }} how
   */
  const worker = async (name, owner, { holdMs, restMs, ttlMs = 30_000, lose = 0, body = {} }) => {
    await sleep(Math.random() * restMs)
    while (on) {
      const taken = await post(name, 'acquire', { ttlMs, waitMs: 60_000, owner, ...body })
      if (taken.status === 200)
        await keep(name, taken.body.claim, { holdMs, ttlMs, lost: Math.random() < lose })
      await sleep(restMs * (0.5 + Math.random()))
    }
  }
  /**
   * @param {string} name
   * @param {string} claim
   * @param {{ holdMs: number, ttlMs: number, lost: boolean }} how
   */
  const keep = async (name, claim, { holdMs, ttlMs, lost }) => {
    // One that dies holds the lock until its lease is over.
    if (lost) return await sleep(ttlMs * 1.5)
    const until = performance.now() + holdMs * (0.6 + Math.random() * 0.8)
    while (on && performance.now() < until) {
      await sleep(Math.min(ttlMs / 3, until - performance.now()))
      await post(name, 'renew', { claim })
    }
    await post(name, 'release', { claim })
  }
  for (const [name, owner, how] of workers()) worker(name, owner, how).catch(() => undefined)
  deadlock(post).catch(() => undefined)
  return { stop: () => void (on = false) }
}

/** @returns {[string, Owner, { holdMs: number, restMs: number, ttlMs?: number, lose?: number, body?: object }][]} */
function workers() {
  const hour = 3_600_000
  const long = { holdMs: hour, restMs: 100 }
  /** @type {[string, Owner, { holdMs: number, restMs: number, ttlMs?: number, lose?: number, body?: object }][]} */
  const all = [
    [
      'leader:scheduler',
      { host: 'api-1', pid: 2214, client: '9f3ac1' },
      { ...long, ttlMs: 15_000, body: { note: 'elected' } },
    ],
    [
      'leader:mailer',
      { host: 'api-3', pid: 2190, client: '41d07e' },
      { ...long, ttlMs: 15_000, body: { note: 'elected' } },
    ],
    [
      'deploy:production',
      { host: 'ci-7', pid: 88121, client: 'deploy' },
      { ...long, ttlMs: 60_000, body: { note: 'release 4.18.2' } },
    ],
    [
      'search:reindex',
      { host: 'worker-2', pid: 611, client: 'c02e77' },
      { ...long, body: { note: 'products, 61 %' } },
    ],
    [
      'tenant:acme/migrate',
      { host: 'worker-4', pid: 7003, client: 'e81b50' },
      { ...long, ttlMs: 45_000, body: { note: 'step 3 of 9' } },
    ],
    [
      'import:customers.csv',
      { host: 'worker-1', pid: 410, client: '77aa10' },
      { ...long, body: { note: '18,204 rows' } },
    ],
    [
      'payments:settle:2026-11',
      { host: 'worker-3', pid: 903, client: 'pay' },
      { holdMs: 9_000, restMs: 3_000 },
    ],
    [
      'cron:nightly-report',
      { host: '10.4.0.17', pid: 0, client: 'cron' },
      { holdMs: 20_000, restMs: 2_000, ttlMs: 60_000 },
    ],
    [
      'cache:warm:homepage',
      { host: 'api-2', pid: 2207, client: 'b6c9d2' },
      { holdMs: 2_500, restMs: 1_500, ttlMs: 10_000 },
    ],
    [
      'email:campaign-42',
      { host: 'worker-2', pid: 612, client: 'mail' },
      { holdMs: 5_000, restMs: 1_000, ttlMs: 4_000, lose: 0.5 },
    ],
  ]
  for (let n = 1; n <= 4; n++) {
    const owner = { host: `worker-${n}`, pid: 3_000 + n, client: 'stock' }
    all.push([
      'stock:sku-4711',
      owner,
      { holdMs: 2_200, restMs: 500, ttlMs: 10_000, body: { note: 'reserve' } },
    ])
    const upload = { mode: 'semaphore', limit: 4, permits: n === 1 ? 2 : 1 }
    all.push([
      'uploads',
      { host: `api-${n}`, pid: 2_200 + n, client: 'upload' },
      { holdMs: 6_000, restMs: 800, body: upload },
    ])
    const mode = n === 4 ? 'write' : 'read'
    const reads = { holdMs: n === 4 ? 1_500 : 7_000, restMs: n === 4 ? 9_000 : 700, body: { mode } }
    all.push([
      'config:features',
      { host: n === 4 ? 'admin' : `api-${n}`, pid: 2_220 + n, client: 'flags' },
      reads,
    ])
  }
  for (let n = 1; n <= 12; n++) {
    const owner = { host: `worker-${(n % 4) + 1}`, pid: 5_000 + n, client: 'orders' }
    all.push([`order:${7_300 + n * 37}`, owner, { holdMs: 1_500 + n * 600, restMs: 900 }])
  }
  return all
}

/**
 * Two transfers that take the same two accounts in opposite orders.
 * @param {(name: string, verb: string, body: object) => Promise<{ body: { claim: string } }>} post
 */
async function deadlock(post) {
  const accounts = ['account:1001', 'account:2002']
  const owners = [1, 2].map((n) => ({
    host: `api-${n}`,
    pid: 2_210 + n,
    client: `bank~s${String(n).repeat(16)}`,
  }))
  const take = (/** @type {number} */ account, /** @type {number} */ owner, /** @type {number} */ waitMs) =>
    post(accounts[account] ?? '', 'acquire', {
      ttlMs: 600_000,
      waitMs,
      owner: owners[owner],
      note: 'transfer 250.00',
    })
  await take(0, 0, 0)
  await take(1, 1, 0)
  // Whoever waits asks again, for as long as this runs.
  for (;;) await Promise.all([take(1, 0, 60_000), take(0, 1, 60_000)])
}
