import type { Backend, Shape } from './backend.js'
import { UnsupportedError } from './errors.js'

type Able = Pick<Backend, 'name' | 'guarantees'>

const KIND_NAMES = { mutex: 'exclusive locks', semaphore: 'semaphores', 'read-write': 'read-write locks' }

/** Refuses a kind of lock that the store cannot do. */
export function requireShape({ name, guarantees }: Able, shape: Shape): void {
  const { weights, limitMax } = guarantees
  if (shape.kind !== 'mutex' && (weights === 'none' || (weights === 'one' && shape.kind !== 'semaphore'))) {
    const known = weights === 'none' ? 'exclusive locks only' : 'exclusive locks and semaphores'
    throw new UnsupportedError(
      `The ${name} store has no ${KIND_NAMES[shape.kind]}: this recipe knows ${known}.`,
      {
        backend: name,
      },
    )
  }
  if (shape.limit > limitMax) {
    throw new UnsupportedError(`The ${name} store takes limits up to ${limitMax}, got ${shape.limit}.`, {
      backend: name,
    })
  }
}

/** Refuses before the store is asked what one claim may not weigh. */
export function requireWeight({ name, guarantees }: Able, weight: number): void {
  if (weight === 1 || guarantees.weights === 'any') return
  throw new UnsupportedError(
    `The ${name} store gives one permit to each holder, and ${weight} were asked for.`,
    { backend: name },
  )
}
