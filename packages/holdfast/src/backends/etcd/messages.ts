/** The messages of etcd's API, version 3, as far as they are used: the numbers are those of its `rpc.proto` and `kv.proto`. */

import {
  bool,
  bytes,
  type Codec,
  choice,
  choices,
  type Decoded,
  type Encoded,
  type Fields,
  given64,
  int64,
  listOf,
  message,
  nested,
  text,
  texts,
  uint64,
} from './proto.js'

export const ResponseHeader = message({
  clusterId: uint64(1),
  memberId: uint64(2),
  revision: int64(3),
  raftTerm: uint64(4),
})

export const KeyValue = message({
  key: bytes(1),
  createRevision: int64(2),
  modRevision: int64(3),
  version: int64(4),
  value: bytes(5),
  lease: int64(6),
})
export type KeyValue = Decoded<typeof KeyValue>

export const SORT_ASCENDING = 1
export const SORT_DESCENDING = 2
export const SORT_BY_CREATION = 2

export const RangeRequest = message({
  key: bytes(1),
  rangeEnd: bytes(2),
  limit: int64(3),
  revision: int64(4),
  sortOrder: choice(5),
  sortTarget: choice(6),
  serializable: bool(7),
  keysOnly: bool(8),
  countOnly: bool(9),
  minCreateRevision: int64(12),
  maxCreateRevision: int64(13),
})
export type RangeRequest = Encoded<typeof RangeRequest>
export const RangeResponse = message({
  header: nested(1, ResponseHeader),
  kvs: listOf(2, KeyValue),
  more: bool(3),
  count: int64(4),
})

export const PutRequest = message({
  key: bytes(1),
  value: bytes(2),
  lease: int64(3),
  ignoreValue: bool(5),
  ignoreLease: bool(6),
})
export const PutResponse = message({ header: nested(1, ResponseHeader) })

export const DeleteRangeRequest = message({ key: bytes(1), rangeEnd: bytes(2) })
export const DeleteRangeResponse = message({ header: nested(1, ResponseHeader), deleted: int64(2) })

export const EQUAL = 0
export const NOT_EQUAL = 3
export const OF_CREATION = 1
export const OF_CHANGE = 2
export const OF_VALUE = 3
export const OF_LEASE = 4

export const Compare = message({
  result: choice(1),
  target: choice(2),
  key: bytes(3),
  createRevision: given64(5),
  modRevision: given64(6),
  value: bytes(7),
  lease: given64(8),
  rangeEnd: bytes(64),
})
export type Compare = Encoded<typeof Compare>

export const RequestOp = message({
  range: nested(1, RangeRequest),
  put: nested(2, PutRequest),
  deleteRange: nested(3, DeleteRangeRequest),
})
export type RequestOp = Encoded<typeof RequestOp>
/** The answer as a whole has a header, so those of its parts are passed over. */
export const ResponseOp = message({
  range: nested(1, message({ kvs: listOf(2, KeyValue) })),
  put: nested(2, message({})),
  deleteRange: nested(3, message({ deleted: int64(2) })),
})

export const TxnRequest = message({
  compare: listOf(1, Compare),
  success: listOf(2, RequestOp),
  failure: listOf(3, RequestOp),
})
export const TxnResponse = message({
  header: nested(1, ResponseHeader),
  succeeded: bool(2),
  responses: listOf(3, ResponseOp),
})
export type TxnResponse = Decoded<typeof TxnResponse>

export const CompactionRequest = message({ revision: int64(1), physical: bool(2) })
export const CompactionResponse = message({ header: nested(1, ResponseHeader) })

export const LeaseGrantRequest = message({ ttl: int64(1), id: int64(2) })
export const LeaseGrantResponse = message({
  header: nested(1, ResponseHeader),
  id: int64(2),
  ttl: int64(3),
  error: text(4),
})
export const LeaseRevokeRequest = message({ id: int64(1) })
export const LeaseRevokeResponse = message({ header: nested(1, ResponseHeader) })
export const LeaseKeepAliveRequest = message({ id: int64(1) })
export const LeaseKeepAliveResponse = message({
  header: nested(1, ResponseHeader),
  id: int64(2),
  ttl: int64(3),
})
export type LeaseKeepAliveResponse = Decoded<typeof LeaseKeepAliveResponse>
export const LeaseTimeToLiveRequest = message({ id: int64(1), keys: bool(2) })
export const LeaseTimeToLiveResponse = message({
  header: nested(1, ResponseHeader),
  id: int64(2),
  ttl: int64(3),
  grantedTtl: int64(4),
})

export const WITHOUT_PUTS = 0
export const EVENT_DELETE = 1

const WatchCreateRequest = message({
  key: bytes(1),
  rangeEnd: bytes(2),
  startRevision: int64(3),
  filters: choices(5),
  watchId: int64(7),
  fragment: bool(8),
})
const WatchCancelRequest = message({ watchId: int64(1) })
export const WatchRequest = message({
  create: nested(1, WatchCreateRequest),
  cancel: nested(2, WatchCancelRequest),
})
const Event = message({ type: choice(1), kv: nested(2, KeyValue) })
export type WatchEvent = Decoded<typeof Event>
export const WatchResponse = message({
  header: nested(1, ResponseHeader),
  watchId: int64(2),
  created: bool(3),
  canceled: bool(4),
  compactRevision: int64(5),
  cancelReason: text(6),
  fragment: bool(7),
  events: listOf(11, Event),
})
export type WatchResponse = Decoded<typeof WatchResponse>

export const StatusRequest = message({})
export const StatusResponse = message({
  header: nested(1, ResponseHeader),
  version: text(2),
  dbSize: int64(3),
  leader: uint64(4),
  raftTerm: uint64(6),
  errors: texts(8),
  isLearner: bool(10),
})
export type StatusResponse = Decoded<typeof StatusResponse>

export const ALARM_NO_SPACE = 1
export const ALARM_CORRUPT = 2
const AlarmMember = message({ memberId: uint64(1), alarm: choice(2) })
export const AlarmRequest = message({ action: choice(1), memberId: uint64(2), alarm: choice(3) })
export const AlarmResponse = message({ header: nested(1, ResponseHeader), alarms: listOf(2, AlarmMember) })

const Member = message({ id: uint64(1), name: text(2), clientUrls: texts(4), isLearner: bool(5) })
export const MemberListRequest = message({})
export const MemberListResponse = message({ header: nested(1, ResponseHeader), members: listOf(2, Member) })

export const AuthenticateRequest = message({ name: text(1), password: text(2) })
export const AuthenticateResponse = message({ header: nested(1, ResponseHeader), token: text(2) })

/** One call of the API. */
export interface Method<Q extends Fields, A extends Fields> {
  readonly path: string
  /** Whether it may change something, so that no answer leaves its outcome open. */
  readonly isWrite: boolean
  readonly request: Codec<Q>
  readonly response: Codec<A>
}

function method<Q extends Fields, A extends Fields>(
  path: string,
  kind: 'read' | 'write',
  request: Codec<Q>,
  response: Codec<A>,
): Method<Q, A> {
  return { path: `/etcdserverpb.${path}`, isWrite: kind === 'write', request, response }
}

export const RANGE = method('KV/Range', 'read', RangeRequest, RangeResponse)
export const TXN = method('KV/Txn', 'write', TxnRequest, TxnResponse)
/** A transaction that only reads goes over the same path. */
export const READ_TXN = method('KV/Txn', 'read', TxnRequest, TxnResponse)
export const PUT = method('KV/Put', 'write', PutRequest, PutResponse)
export const DELETE_RANGE = method('KV/DeleteRange', 'write', DeleteRangeRequest, DeleteRangeResponse)
export const COMPACT = method('KV/Compact', 'write', CompactionRequest, CompactionResponse)
export const LEASE_GRANT = method('Lease/LeaseGrant', 'write', LeaseGrantRequest, LeaseGrantResponse)
export const LEASE_REVOKE = method('Lease/LeaseRevoke', 'write', LeaseRevokeRequest, LeaseRevokeResponse)
export const LEASE_KEEP_ALIVE = method(
  'Lease/LeaseKeepAlive',
  'read',
  LeaseKeepAliveRequest,
  LeaseKeepAliveResponse,
)
export const LEASE_TIME_TO_LIVE = method(
  'Lease/LeaseTimeToLive',
  'read',
  LeaseTimeToLiveRequest,
  LeaseTimeToLiveResponse,
)
export const WATCH = method('Watch/Watch', 'read', WatchRequest, WatchResponse)
export const STATUS = method('Maintenance/Status', 'read', StatusRequest, StatusResponse)
export const ALARM = method('Maintenance/Alarm', 'read', AlarmRequest, AlarmResponse)
export const MEMBER_LIST = method('Cluster/MemberList', 'read', MemberListRequest, MemberListResponse)
export const AUTHENTICATE = method('Auth/Authenticate', 'read', AuthenticateRequest, AuthenticateResponse)
