import { CORE, type Mutant } from './mutant.js'

const PRIMITIVES = 'holdfast/src/primitives'

/** Faults of what surrounds a lock: contexts, listeners, the lifetime of the process, order, and what callers are promised. */
export const CALLER_MUTANTS: readonly Mutant[] = [
  {
    name: 'abort listener left on the signal',
    file: `${CORE}/abort-listeners.ts`,
    find: "signal.removeEventListener('abort', listener)",
    replace: 'void listener',
  },
  {
    name: 'all() does not stop listening to its signals',
    file: `${PRIMITIVES}/all.ts`,
    find: 'for (const stop of unlisten) stop()',
    replace: 'void unlisten',
  },
  {
    name: 'waiter does not keep the process running',
    file: `${CORE}/keep-alive.ts`,
    find: 'this.#start(), true)',
    replace: 'this.#start(), false)',
  },
  {
    name: 'process kept running after the last waiter has left',
    file: `${CORE}/waiters.ts`,
    find: 'if (waiter.waits) this.#context.keepAlive.leave()',
    replace: '',
  },
  {
    name: 'signal aborts in the context of the code that notices the loss',
    file: `${CORE}/scoped-abort.ts`,
    find: 'this.#scope(() => this.#controller.abort(reason))',
    replace: 'this.#controller.abort(reason)',
  },
  {
    name: 'event published in the context of the caller that causes it',
    file: `${CORE}/reports.ts`,
    find: 'scope(() => this.#to.tell(event))',
    replace: 'this.#to.tell(event)',
  },
  {
    name: 'store asked for a waiter in the context of the caller that releases',
    file: `${CORE}/local-line.ts`,
    find: 'else this.#context.runtime.contexts.outside(() => this.#ask(first.wish))',
    replace: 'else this.#ask(first.wish)',
  },
  {
    name: 'waiting writer overtaken after a downgrade',
    file: `${CORE}/local-line.ts`,
    find: '    this.#serve()\n    return next\n',
    replace: '    return next\n',
  },
  {
    name: 'local hand-over without a bound in time',
    file: `${CORE}/hand-over.ts`,
    find: 'now - standing.since < TENURE_MS &&',
    replace: '',
  },
  {
    name: 'last local caller served first',
    file: `${CORE}/waiters.ts`,
    find: '    for (const waiter of this.#entries) return waiter\n    return null\n',
    replace: '    return [...this.#entries].at(-1) ?? null\n',
  },
  {
    name: 'claim admitted before those that wait',
    file: `${CORE}/line.ts`,
    find: 'const admitted = fitsBehind(line, line.length, claim)',
    replace: 'const admitted = fitsBehind(line, admittedCount(line, claim.shape.limit), claim)',
  },
  {
    name: 'run() resolves although its lock was lost',
    file: `${PRIMITIVES}/run-under.ts`,
    find: 'if (lost !== null) throw lost\n  return value',
    replace: 'return value',
  },
  {
    name: 'run() resolves although the store had lost its claim',
    file: `${CORE}/local-line.ts`,
    find: "if (outcome === 'gone' && this.wasPromised(hold)) hold.foundGone()",
    replace: '',
  },
  {
    name: "caller's own error replaced by the loss",
    file: `${PRIMITIVES}/run-under.ts`,
    find: '    await hold.release()\n    throw error\n',
    replace: '    const lost = lossOf(hold)\n    await hold.release()\n    throw lost ?? error\n',
  },
  {
    name: 'maxHoldMs not enforced',
    file: `${CORE}/local-line.ts`,
    find: 'standing.limitAt = limitAt\n',
    replace: 'standing.limitAt = Number.POSITIVE_INFINITY\n',
  },
  {
    name: 'minHoldMs not kept',
    file: `${CORE}/local-line.ts`,
    find: 'return Math.ceil(hold.acquiredAt + hold.minHoldMs - this.nowMs())',
    replace: 'return Math.ceil(hold.acquiredAt - this.nowMs())',
  },
  {
    name: 'leadership handed over inside the process',
    file: `${PRIMITIVES}/election.ts`,
    find: 'handsOver: false,',
    replace: 'handsOver: true,',
  },
  {
    name: 'waiters of a closed client left waiting',
    file: `${CORE}/local-line.ts`,
    find: '    this.#waiters.failAll(error)\n    for (const seek of this.#tries) seek.cancel()\n',
    replace: '    void error\n    for (const seek of this.#tries) seek.cancel()\n',
  },
  {
    name: 'async context of an acquisition kept after its release',
    file: `${CORE}/reports.ts`,
    find: 'outcome, heldMs, handedOver })\n    }\n    this.#scopes.delete(hold.acquisition)',
    replace: 'outcome, heldMs, handedOver })\n    }',
    soak: true,
  },
  {
    name: 'wait loop kept in the index after it has ended',
    file: `${CORE}/local-line.ts`,
    find: 'this.#context.seeks.delete(seek)',
    replace: 'void 0',
    soak: true,
  },
  {
    name: 'every name kept that was ever locked',
    file: `${CORE}/desk.ts`,
    find: 'if (this.#idle.size <= IDLE_LINES_MAX) return',
    replace: 'if (this.#idle.size > 0) return',
    soak: true,
  },
]
