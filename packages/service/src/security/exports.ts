/** What the package offers of its security: for the command, and for whoever sets the service up in a program. */

export { addToken, readAuth, removeToken } from './auth-edit.js'
export {
  type AuthEntry,
  AuthFileError,
  type AuthRight,
  type AuthTokens,
  checkExpires,
  checkPrefix,
  checkRightName,
  checkTokenName,
  checkTtl,
} from './auth-entries.js'
export { LimitError, type Limits } from './limits.js'
export { ListenError } from './listen-rule.js'
export type { BreakLine, Log, LogLine, NoticeLine, RequestLine } from './log-line.js'
export type { Right } from './principal.js'
