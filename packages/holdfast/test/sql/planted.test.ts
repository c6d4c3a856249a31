import { describe, expect, test } from 'vitest'
import { hashOf } from '../../src/backends/sql/identifiers.js'
import type { Claim, HolderNote, Verdict } from '../../src/core/backend.js'
import { refOf } from '../../src/core/names.js'
import { claimOf, NO_SINK } from '../support/claims.js'
import { afterwards, freshName, partyAt, rejection, type SqlTarget, sqlTargets } from './recipes.js'
import { type Recorded, recordedBackend } from './recorded-pools.js'

/** It is in every planted text and in nothing else, so where it turns up, a planted text has got there. */
const MARK = 'pLaNtEd'

/** Texts that would break out of a statement, if one were built from them. */
const PLANTED: readonly string[] = [
  `${MARK}'; DROP TABLE holdfast_places; --`,
  `${MARK}"; DROP TABLE holdfast_rows; --`,
  `${MARK}\\'; DELETE FROM holdfast_places; --`,
  `${MARK}' OR '1'='1`,
  `${MARK}') ON CONFLICT DO NOTHING; --`,
  `/* ${MARK} */ -- #`,
  `/*! ${MARK}`,
  `$$ ${MARK} $holdfast$ $1 $2`,
  `? ?? ${MARK} :name @name %s %d {0}`,
  `\`${MARK}\`; DROP TABLE holdfast_slots; #`,
  `${MARK}\\`,
  `\\u0027 \\x27 ${MARK} \u{1f980}\u00e0`,
]

async function recorded(target: SqlTarget): Promise<Recorded> {
  const found = recordedBackend(target)
  await found.backend.open(NO_SINK)
  afterwards(async () => {
    await found.backend.close()
    await found.end()
  })
  return found
}

function plantedClaim(text: string): Claim {
  return claimOf(`${text} ${freshName()}`, {
    owner: { host: `${text} host`, pid: 7, client: refOf(text) },
    note: `${text} note`,
  })
}

function holderIn(verdict: Verdict): HolderNote | null {
  if (verdict.kind !== 'waiting' && verdict.kind !== 'refused') throw new Error(`It was ${verdict.kind}.`)
  return verdict.holder
}

/** All that can be asked for one claim, by its own client and by another. */
async function useEverything(claim: Claim, { backend }: Recorded, other: Recorded): Promise<void> {
  const { resource, owner, note } = claim
  const granted = await backend.attempt(claim, { waitMs: 0, leaseMs: 5_000 })
  expect(granted.kind).toBe('granted')
  const fence = granted.kind === 'granted' ? granted.fence : null
  const [renewal] = await backend.renew([{ claim, fence, leaseMs: 5_000 }])
  expect(['renewed', 'held']).toContain(renewal)
  const { holders } = await backend.inspect(resource)
  expect(holders).toMatchObject([{ owner, note }])

  const rival = { ...claim, id: refOf(claim.id) }
  const verdict = await other.backend.attempt(rival, { waitMs: 200, leaseMs: 5_000 })
  if (backend.guarantees.shows === 'claims') {
    expect(holderIn(verdict)).toEqual({ owner, note })
    const names: string[] = []
    for await (const view of other.backend.list(resource)) names.push(view.resource)
    expect(names).toEqual([resource])
    expect((await other.backend.inspect(resource)).holders).toMatchObject([{ owner, note }])
  } else {
    expect(verdict.kind).toBe('refused')
    expect((await other.backend.inspect(resource)).holders).toHaveLength(1)
  }
  await other.backend.release(rival)
  expect(await backend.release(claim)).toBe('released')
}

/** What a statement could have been built from: the texts themselves, and what stands for them at the server. */
function traces({ resource, id, owner }: Claim): readonly string[] {
  const hash = hashOf(resource)
  const numbers = [hash.readBigInt64BE(0), hash.readInt32BE(0)].map(String)
  return [
    MARK,
    id,
    owner.client,
    hash.toString('hex', 0, 8),
    hash.toString('base64').slice(0, 10),
    ...numbers,
  ]
}

describe.each(await sqlTargets())('planted texts: $title', (target) => {
  test('come back as they were, and are in no statement', async () => {
    const [first, second] = await Promise.all([recorded(target), recorded(target)])
    const claims = PLANTED.map(plantedClaim)
    for (const claim of claims) await useEverything(claim, first, second)
    const all = claims.flatMap(traces)
    const texts = [...new Set([...first.texts, ...second.texts])]
    expect(texts.length).toBeGreaterThan(3)
    const built = texts.filter((text) =>
      all.some((trace) => text.toLowerCase().includes(trace.toLowerCase())),
    )
    expect(built).toEqual([])
    // What was recorded is what was sent: as values, the names are there, or what stands for them.
    const sent = JSON.stringify([...first.values, ...second.values], (_, value: unknown) => textOf(value))
    const claim = claims[0] as Claim
    expect(traces(claim).some((trace) => sent.includes(trace))).toBe(true)

    if (target.recipe !== 'rows' && target.recipe !== 'for-update') return
    const tables = ['holdfast_places', 'holdfast_rows']
    for (const table of tables) await target.server.query(`SELECT count(*) FROM ${table}`)
  })

  test('with control characters are refused before they get anywhere', async () => {
    const { locks } = await partyAt(target)
    for (const text of ['a\u0000b', '\u0000', 'a\nb', 'a\u007fb']) {
      expect(() => locks.mutex(text)).toThrowError(expect.objectContaining({ code: 'INVALID_INPUT' }))
      expect(await rejection((async () => await locks.mutex('a').acquire({ note: text }))())).toMatchObject({
        code: 'INVALID_INPUT',
      })
    }
  })
})

/** Bytes as the text that they are: names go to MySQL as bytes. */
function textOf(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Reflect.get(value, 'type') !== 'Buffer') return value
  const bytes = Buffer.from(Reflect.get(value, 'data') as number[])
  return `${bytes.toString('latin1')} ${bytes.toString('hex')}`
}
