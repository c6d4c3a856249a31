import type { FastifyInstance, FastifyRequest } from 'fastify'
import { InvalidInputError } from 'holdfast'
import { type RecordStore, TokenRefusedError } from 'holdfast/idempotency'
import { canonicalJsonMember, fingerprintOf, systemRuntime } from 'holdfast/service'
import { requireRight, requireTtl } from '../security/guard.js'
import { bodyTextOf } from '../security/json-body.js'
import { type Right, tokenName } from '../security/principal.js'
import { answerClaim, answerFinish, answerRead, problem } from './answers.js'
import { type Address, openRecordDesk, type RecordDesk } from './record-desk.js'
import * as schemas from './schemas.js'

export interface RecordRoutesOptions {
  /** Closed by whoever has it. null: there is none, and the routes say so. */
  readonly records: RecordStore | null
  readonly bodyBytesMax: number
  readonly leaseMaxMs: number
  /** Told of what went wrong where nobody waits for an answer. */
  readonly onError?: (error: unknown) => void
}

/** Adds `/v1/tokens/*` and `/v1/records/*`. */
export async function recordRoutes(app: FastifyInstance, options: RecordRoutesOptions): Promise<void> {
  const { records, bodyBytesMax: bodyLimit, leaseMaxMs, onError = (): void => {} } = options
  const desk = await openRecordDesk(records, leaseMaxMs, onError)
  addClaims(app, desk, bodyLimit)
  addEndings(app, desk, bodyLimit)
  addUpkeep(app, desk, bodyLimit)
  addTokens(app, desk, bodyLimit)
}

type Desk = () => RecordDesk

function addClaims(app: FastifyInstance, desk: Desk, bodyLimit: number): void {
  app.post<{ Body: schemas.ClaimBody }>(
    '/v1/records/claim',
    { bodyLimit, schema: schemas.ClaimSchema, config: { keepsBody: true } },
    async (request, reply) => {
      const { body } = request
      const { key, isRaw, onlyIssued, ...rest } = addressed(request, desk, body, 'acquire')
      const owner = body.owner ?? systemRuntime.random.id()
      const ask = {
        key,
        owner,
        fingerprint: fingerprintIn(body, key, bodyTextOf(request)),
        leaseMs: leaseFor(request, desk, body.leaseMs),
        retentionMs: desk().retentionMs(body.retentionMs, isRaw),
        takeOver: body.takeOver ?? true,
        onlyIssued: onlyIssued || (body.onlyIssued ?? false),
      }
      const answer = await desk().ask(rest, (store) => store.claim(ask))
      desk().claimed()
      return answerClaim(reply, owner, answer)
    },
  )

  app.post<{ Body: schemas.RenewBody }>(
    '/v1/records/renew',
    { bodyLimit, schema: schemas.RenewSchema },
    async (request) => {
      const asks = request.body.claims.map(({ owner, fence, leaseMs, retentionMs, ...address }) => {
        const { key, isRaw } = addressed(request, desk, address, 'acquire')
        const lasting = leaseMs === 0 ? 0 : leaseFor(request, desk, leaseMs)
        const kept = desk().retentionMs(retentionMs, isRaw)
        return { key, owner, fence: BigInt(fence), leaseMs: lasting, retentionMs: kept }
      })
      if (asks.length === 0) return { results: [] }
      return { results: await desk().ask({ operation: 'records' }, (store) => store.renew(asks)) }
    },
  )
}

function addEndings(app: FastifyInstance, desk: Desk, bodyLimit: number): void {
  app.post<{ Body: schemas.FinishBody }>(
    '/v1/records/finish',
    { bodyLimit, schema: schemas.FinishSchema },
    async (request) => {
      const { owner, fence, state, result = null, retentionMs, ...address } = request.body
      const { key, isRaw, ...rest } = addressed(request, desk, address, 'acquire')
      if (result !== null) desk().checkText(result, 'result')
      const kept = desk().retentionMs(retentionMs, isRaw)
      const ask = { key, owner, fence: BigInt(fence), state, result, retentionMs: kept }
      return answerFinish(await desk().ask(rest, (store) => store.finish(ask)))
    },
  )

  app.post<{ Body: schemas.SaveBody }>(
    '/v1/records/save',
    { bodyLimit, schema: schemas.SaveSchema },
    async (request) => {
      const { owner, fence, progress, ...address } = request.body
      const { key, ...rest } = addressed(request, desk, address, 'acquire')
      desk().checkText(progress, 'progress')
      const ask = { key, owner, fence: BigInt(fence), progress }
      return answerFinish(await desk().ask(rest, (store) => store.save(ask)))
    },
  )
}

function addUpkeep(app: FastifyInstance, desk: Desk, bodyLimit: number): void {
  app.post<{ Body: schemas.AddressBody }>(
    '/v1/records/read',
    { bodyLimit, schema: schemas.ReadSchema },
    async (request) => {
      const { key, names, ...rest } = addressed(request, desk, request.body, 'inspect')
      const view = await desk().ask(rest, (store) => store.read(key))
      const mayClaim = names.every((name) => request.principal.may('acquire', name))
      return answerRead(view, mayClaim)
    },
  )

  app.post<{ Body: schemas.AddressBody }>(
    '/v1/records/forget',
    { bodyLimit, schema: schemas.ForgetSchema },
    async (request) => {
      const { key, ...rest } = addressed(request, desk, request.body, 'break')
      return { forgotten: await desk().ask(rest, (store) => store.forget(key)) }
    },
  )

  app.post<{ Body: schemas.IssueRecordBody }>(
    '/v1/records/issue',
    { bodyLimit, schema: schemas.IssueRecordSchema },
    async (request) => {
      const { retentionMs, ...address } = request.body
      const { key, ...rest } = addressed(request, desk, address, 'acquire')
      desk().retentionMs(retentionMs, true)
      return { issued: await desk().ask(rest, (store) => store.issue(key, retentionMs)) }
    },
  )

  app.post<{ Body: schemas.SpendBody }>(
    '/v1/records/spend',
    { bodyLimit, schema: schemas.SpendSchema },
    async (request) => {
      const { count, ...address } = request.body
      const { key, ...rest } = addressed(request, desk, address, 'acquire')
      return await desk().ask(rest, (store) => store.spend({ key, count }))
    },
  )
}

function addTokens(app: FastifyInstance, desk: Desk, bodyLimit: number): void {
  app.post<{ Body: schemas.IssueTokenBody }>(
    '/v1/tokens/issue',
    { bodyLimit, schema: schemas.IssueTokenSchema },
    async (request, reply) => {
      requireRight(request, 'acquire', tokenName(request.body.purpose))
      desk().retentionMs(request.body.ttlMs, true)
      return reply.code(201).send(await desk().consuming.issue(request.body))
    },
  )

  app.post<{ Body: schemas.ConsumeBody }>(
    '/v1/tokens/consume',
    { bodyLimit, schema: schemas.ConsumeSchema },
    async (request) => {
      const { token, count = false, ...binding } = request.body
      requireRight(request, 'acquire', tokenName(binding.purpose))
      const tokens = count ? desk().counting : desk().consuming
      const { answer, uses } = await tokens.consume(token, binding)
      if (answer !== 'ok') throw problem('TOKEN_REFUSED', { reason: answer, uses })
      return { uses }
    },
  )
}

function addressed(request: FastifyRequest, desk: Desk, body: schemas.AddressBody, right: Right): Address {
  try {
    return desk().addressOf(body, (name) => requireRight(request, right, name))
  } catch (error) {
    if (error instanceof TokenRefusedError) throw problem('TOKEN_REFUSED', { reason: error.reason, uses: 0 })
    throw error
  }
}

function leaseFor(request: FastifyRequest, desk: Desk, asked: number | undefined): number {
  const leaseMs = desk().leaseMs(asked)
  requireTtl(request, leaseMs)
  return leaseMs
}

/** The text of the input is compared, and not what is left of it after parsing: two long numbers may be one then. */
function fingerprintIn({ fingerprint, input }: schemas.ClaimBody, key: string, text: string): string | null {
  if (fingerprint === undefined) {
    const said = input === undefined ? null : canonicalJsonMember(text, 'input')
    return fingerprintOf(input, said === null ? 'json' : () => said, key)?.text ?? null
  }
  if (input === undefined) return fingerprint
  throw new InvalidInputError('fingerprint', 'left out where `input` is given', Symbol('both'))
}
