import { AsyncResource } from 'node:async_hooks'
import type { Contexts, Scope } from './runtime.js'

/** `AsyncLocalStorage.snapshot()` does the same, but takes ten times as long. */
function capture(): Scope {
  const resource = new AsyncResource('HOLDFAST')
  return (run) => resource.runInAsyncScope(run)
}

/** The context in which the library was loaded, which belongs to no caller unless a caller imports the library lazily. */
const loadScope = capture()

/** The async contexts of Node, which `AsyncLocalStorage` reads. */
export const asyncContexts: Contexts = {
  capture,
  outside: (run) =>
    // A resource of its own for each call: on Node 20 and 22 `enterWith()` in code that runs here, such as the
    // instrumentation of a driver, changes the resource that it runs in, and would change the context of all later calls.
    loadScope(() => new AsyncResource('HOLDFAST').runInAsyncScope(run)),
}
