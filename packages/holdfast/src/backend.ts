/** For those who write a backend of their own: the interface, and the rule that decides who holds. */
export type * from './core/backend.js'
export * from './core/line.js'
export { refOf } from './core/names.js'
export type { Clock, Contexts, Identity, Random, Runtime, Scope, Timer, Timers } from './core/runtime.js'
