import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ClaimView, ResourceView } from 'holdfast'
import { checkName, checkNote } from 'holdfast/service'
import { type BreakBody, BreakSchema, InspectSchema, type ListQuery, ListSchema } from '../schemas/locks.js'
import type { ClaimsHeld } from '../security/claims-held.js'
import { requireAnyRight } from '../security/guard.js'
import { ListLimits } from '../security/lists.js'
import { auditBreak, type Log } from '../security/log-line.js'
import { firstOf, INSPECT_BYTES_MAX } from '../watch/shown.js'
import type { Watcher } from '../watch/watcher.js'
import { wireClaim, wireResource } from '../watch/wire.js'
import { type ClaimRules, nameFor, type ToName } from './claims.js'
import { SharedLooks } from './shared-looks.js'

export interface LookRoutesOptions extends ClaimRules {
  readonly watcher: Watcher
  readonly log: Log | null
  readonly claims: ClaimsHeld
}

/** Adds what shows, and what takes away. */
export async function lookRoutes(app: FastifyInstance, options: LookRoutesOptions): Promise<void> {
  const { counter, watcher, log, claims } = options
  const lists = new ListLimits(options.limits)
  const looks = new SharedLooks((name) => counter.inspect(name))

  app.get<ToList>('/v1/locks', { schema: ListSchema }, async (request, reply) => {
    requireAnyRight(request, 'inspect')
    return await lists.make(request.principal, () => list(options, request, reply))
  })

  app.get<ToName>('/v1/locks/:name', { schema: InspectSchema }, async (request) => {
    const name = nameFor(options, request, 'inspect', request.params.name)
    return wireResource(await looks.at(name), INSPECT_BYTES_MAX)
  })

  app.post<ToName & { Body: BreakBody }>(
    '/v1/locks/:name/break',
    { schema: BreakSchema },
    async (request) => {
      const name = nameFor(options, request, 'break', request.params.name)
      const reason = checkNote(request.body.reason, 'reason')
      const meant = claimsMeant(await counter.inspect(name), request.body.ref)
      const broken: ClaimView[] = []
      try {
        for (const claim of meant) {
          if (!(await counter.evict(name, claim.ref, reason))) continue
          broken.push(claim)
          watcher.broken(name, claim.ref, reason, claim)
        }
      } finally {
        claims.endByRefs(name, broken)
        const refs = broken.map(({ ref }) => ref)
        auditBreak(log, { principal: request.principal.name, address: request.ip, name, reason, refs })
      }
      return { broken: firstOf(broken, INSPECT_BYTES_MAX).claims.map(wireClaim), brokenTotal: broken.length }
    },
  )
}

interface ToList {
  Querystring: ListQuery
}

/** A page ends behind the lock with which it has this many bytes, whatever `limit` says. */
const PAGE_BYTES_MAX = 1_024 * 1_024

/** After so many names of a list, other requests get their turn, and it is seen whether the caller is still there. */
const NAMES_BETWEEN_TURNS = 200
/** And after so many bytes of it. */
const BYTES_BETWEEN_TURNS = 32 * 1_024

/** One page. The store is walked from its beginning for each, so there is an end to it as soon as nobody waits for it. */
async function list(
  { counter }: LookRoutesOptions,
  request: FastifyRequest<ToList>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { prefix = '', after = '', limit = 500 } = request.query
  if (prefix !== '') checkName(prefix, 'prefix', counter.limits.nameBytesMax)
  const texts: string[] = []
  let last: string | null = null
  let walked = 0
  let bytes = 0
  let sinceTurn = 0
  for await (const view of counter.list(prefix)) {
    walked += 1
    // A store that answers without waiting would otherwise keep everybody else from being served.
    if (walked % NAMES_BETWEEN_TURNS === 0 || sinceTurn >= BYTES_BETWEEN_TURNS) {
      sinceTurn = 0
      await new Promise((resolve) => setImmediate(resolve))
    }
    // An answer that stands behind another one on the same connection is not told of its end.
    if (reply.raw.destroyed || request.raw.socket.destroyed) break
    if (!isBehind(view.resource, after) || !request.principal.may('inspect', view.resource)) continue
    if (texts.length === limit || bytes >= PAGE_BYTES_MAX) return sendPage(reply, texts, last)
    const text = JSON.stringify(wireResource(view))
    const size = Buffer.byteLength(text)
    bytes += size
    sinceTurn += size
    texts.push(text)
    last = view.resource
  }
  return sendPage(reply, texts, null)
}

/** Each lock is made to text once, and not again with its page: a large page would keep all others waiting. */
function sendPage(reply: FastifyReply, locks: readonly string[], next: string | null): FastifyReply {
  const page = `{"locks":[${locks.join()}],"next":${JSON.stringify(next)}}`
  return reply.type('application/json; charset=utf-8').send(page)
}

function claimsMeant({ holders, waiters }: ResourceView, ref: string | undefined): readonly ClaimView[] {
  return ref === undefined ? holders : [...holders, ...waiters].filter((claim) => claim.ref === ref)
}

/** The stores list names in the order of their bytes, in which a text of JavaScript does not always compare. */
function isBehind(name: string, after: string): boolean {
  return after === '' || Buffer.compare(Buffer.from(name), Buffer.from(after)) > 0
}
