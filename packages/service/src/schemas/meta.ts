import { Type } from 'typebox'
import { responses } from './problems.js'
import { Ms } from './views.js'

const TAGS = ['service']

export const StoreSchema = {
  summary: 'Which store it is, what it guarantees, and how much may be asked of the service',
  operationId: 'store',
  tags: TAGS,
  response: responses({
    200: Type.Object({
      version: Type.String(),
      store: Type.String(),
      guarantees: Type.Object({}, { additionalProperties: true }),
      limits: Type.Object({
        ttlMinMs: Ms,
        ttlMaxMs: Ms,
        ttlStepMs: Ms,
        ttlDefaultMs: Ms,
        waitMaxMs: Ms,
        nameBytesMax: Type.Integer({ minimum: 1 }),
        bodyBytesMax: Type.Integer({ minimum: 1 }),
      }),
      records: Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()]),
      instance: Type.String(),
    }),
  }),
}

export const HealthSchema = {
  summary: 'Whether the process lives',
  operationId: 'health',
  tags: TAGS,
  response: responses({ 200: Type.Object({ status: Type.Literal('alive') }) }),
}

export const ReadySchema = {
  summary: 'Whether the store answers and the service is not stopping',
  operationId: 'ready',
  tags: TAGS,
  response: responses({ 200: Type.Object({ status: Type.Literal('ready') }) }),
}
