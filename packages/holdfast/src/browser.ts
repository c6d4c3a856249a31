export {
  type IdempotentFetchOptions,
  type IntentStorage,
  idempotentFetch,
  isInFlight,
  type RetryNotice,
} from './browser/fetch.js'
export { type FormGuard, type GuardFormOptions, guardForm, type ReleaseOptions } from './browser/form.js'
