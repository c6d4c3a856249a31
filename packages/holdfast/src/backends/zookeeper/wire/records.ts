/** The records of the protocol, as this client writes and reads them. */

import { garbage } from './errors.js'
import { type JuteReader, JuteWriter } from './jute.js'

export const OPCODE = {
  create: 1,
  delete: 2,
  exists: 3,
  getData: 4,
  setData: 5,
  getAcl: 6,
  setAcl: 7,
  sync: 9,
  ping: 11,
  children: 12,
  check: 13,
  multi: 14,
  create2: 15,
  createContainer: 19,
  auth: 100,
  setWatches: 101,
  closeSession: -11,
} as const

/** Numbers of requests that are not counted. */
export const XID = { event: -1, ping: -2, auth: -4, setWatches: -8 } as const

export interface Stat {
  readonly czxid: bigint
  readonly mzxid: bigint
  readonly pzxid: bigint
  readonly ctime: bigint
  readonly mtime: bigint
  readonly version: number
  readonly cversion: number
  readonly aversion: number
  readonly ephemeralOwner: bigint
  readonly dataLength: number
  readonly numChildren: number
}

/** `perms` is a sum of PERMISSION. */
export interface Acl {
  readonly perms: number
  readonly scheme: string
  readonly id: string
}

export const PERMISSION = { read: 1, write: 2, create: 4, delete: 8, admin: 16, all: 31 } as const

/** Everybody may do everything. */
export const OPEN_ACL: readonly Acl[] = [{ perms: PERMISSION.all, scheme: 'world', id: 'anyone' }]

/** Whoever made the node may do everything, and nobody else anything. It needs `auth`. */
export const CREATOR_ACL: readonly Acl[] = [{ perms: PERMISSION.all, scheme: 'auth', id: '' }]

export function readStat(reader: JuteReader): Stat {
  return {
    czxid: reader.long(),
    mzxid: reader.long(),
    ctime: reader.long(),
    mtime: reader.long(),
    version: reader.int(),
    cversion: reader.int(),
    aversion: reader.int(),
    ephemeralOwner: reader.long(),
    dataLength: reader.int(),
    numChildren: reader.int(),
    pzxid: reader.long(),
  }
}

export function writeAcl(writer: JuteWriter, acl: readonly Acl[]): void {
  writer.vector(acl, ({ perms, scheme, id }) => writer.int(perms).text(scheme).text(id))
}

export function readAcl(reader: JuteReader): Acl[] {
  return reader.vector(12, () => ({ perms: reader.int(), scheme: reader.text(), id: reader.text() }))
}

export interface Greeting {
  readonly lastZxid: bigint
  readonly sessionMs: number
  readonly sessionId: bigint
  readonly password: Buffer
}

export function greetingFrame({ lastZxid, sessionMs, sessionId, password }: Greeting): Buffer {
  const writer = new JuteWriter().int(0).long(lastZxid).int(sessionMs).long(sessionId).buffer(password)
  // A server that has lost the others could serve reads of the past; a lock must not be told of the past.
  return writer.bool(false).frame()
}

export interface Welcome {
  readonly sessionMs: number
  readonly sessionId: bigint
  readonly password: Buffer
}

const PASSWORD_BYTES_MAX = 1_024

export function readWelcome(reader: JuteReader): Welcome {
  reader.int()
  const welcome = { sessionMs: reader.int(), sessionId: reader.long(), password: reader.buffer() }
  if (welcome.password.length > PASSWORD_BYTES_MAX) throw garbage('the password of the session is too long')
  return welcome
}

export function authFrame(scheme: string, credential: string): Buffer {
  const writer = new JuteWriter().int(XID.auth).int(OPCODE.auth).int(0)
  return writer.text(scheme).buffer(Buffer.from(credential, 'utf8')).frame()
}

export function pingFrame(): Buffer {
  return new JuteWriter().int(XID.ping).int(OPCODE.ping).frame()
}

export type NodeEventType = 'created' | 'deleted' | 'changed' | 'children'

const EVENT_TYPES = new Map<number, NodeEventType>([
  [1, 'created'],
  [2, 'deleted'],
  [3, 'changed'],
  [4, 'children'],
])

/** Null for an event that says nothing of a node; servers send such to clients that asked for more than this one does. */
export function readEvent(reader: JuteReader): { type: NodeEventType; path: string } | null {
  const type = EVENT_TYPES.get(reader.int())
  reader.int()
  const path = reader.text()
  return type === undefined ? null : { type, path }
}
