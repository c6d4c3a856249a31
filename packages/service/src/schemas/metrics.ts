import { Type } from 'typebox'
import { responses } from './problems.js'

export const MetricsSchema = {
  summary: 'What the service did, as Prometheus reads it. Names are in no label',
  operationId: 'metrics',
  tags: ['service'],
  produces: ['text/plain'],
  response: responses({ 200: Type.String() }),
}
