import { emitWarning, env } from 'node:process'
import type { Backend } from '../core/backend.js'
import { isFlowPath } from '../core/flow-text.js'
import { Flows, type OrderKeeping } from '../core/flows.js'
import { LockOrder, type LockOrderOptions } from '../core/lock-order.js'
import { type ClientOptions, checkFunction, checkKeys, checkOneOf } from '../core/options.js'
import type { Runtime } from '../core/runtime.js'
import { channelReporter } from './channel-reporter.js'

/** Where `holdfast run`, or any other program that starts this one, says in which flow it did. */
export const FLOW_VARIABLE = 'HOLDFAST_FLOW'

const ORDER_VARIABLE = 'HOLDFAST_LOCK_ORDER'

/** All clients of the process share it: names of one client may be taken inside those of another. */
const ordering: OrderKeeping = {
  order: new LockOrder(),
  tell(backend, inversion, text, stacks) {
    if (channelReporter.isHeard) {
      channelReporter.tell({ type: 'lock-order', backend, resource: inversion.now.taken, inversion })
    }
    emitWarning(text, { type: 'HoldfastWarning', code: ORDER_VARIABLE, detail: stacks })
  },
}

/** Objects that stand for stores, by number, because an order is kept between texts. */
const numbers = new WeakMap<object, number>()
let lastNumber = 0

/** One text for each store: two clients of one server share an order, and two servers of one kind have one each. */
function identityOf(backend: Backend): string {
  const { name, identity } = backend
  if (typeof identity === 'string') return JSON.stringify([name, identity])
  const store = typeof identity === 'object' && identity !== null ? identity : backend
  const known = numbers.get(store)
  if (known === undefined) numbers.set(store, ++lastNumber)
  return JSON.stringify([name, known ?? lastNumber])
}

/** What knows which claims belong together; null where nobody asked for it. */
export function flowsFor(backend: Backend, runtime: Runtime, options: ClientOptions): Flows | null {
  const lockOrder = lockOrderOf(options.lockOrder)
  // Where a store does not show its claims, there is nobody who could read it.
  const deadlocks = backend.guarantees.shows === 'claims' ? (options.deadlocks ?? 'off') : 'off'
  if (deadlocks === 'off' && lockOrder === null) return null
  const told = env[FLOW_VARIABLE] ?? ''
  const outerFlow = isFlowPath(told) ? told : null
  const store = { name: backend.name, identity: identityOf(backend) }
  return new Flows(runtime, store, { deadlocks, lockOrder, outerFlow }, ordering)
}

function lockOrderOf(option: ClientOptions['lockOrder']): LockOrderOptions | null {
  if (typeof option === 'object') {
    checkKeys(option, ['mode', 'group'], 'lockOrder')
    checkOneOf(option.mode, 'lockOrder.mode', ['warn', 'throw'])
    if (option.group !== undefined) checkFunction(option.group, 'lockOrder.group')
    return option
  }
  const asked = env[ORDER_VARIABLE] ?? ''
  if (option === undefined && asked === '') return null
  const mode =
    option === undefined
      ? checkOneOf(asked, ORDER_VARIABLE, ['off', 'warn', 'throw'])
      : checkOneOf(option, 'lockOrder', ['off', 'warn', 'throw'])
  return mode === 'off' ? null : { mode }
}
