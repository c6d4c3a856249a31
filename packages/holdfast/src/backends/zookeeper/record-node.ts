/**
 * What the nodes of a record are called and what is in them:
 *
 *     /base/+idempotency/0a/0a5f…                 the record, for as long as it is kept
 *     /base/+idempotency/0a/0a5f…/owner           ephemeral: there as long as the session of the owner, and the owner works
 *     /base/+idempotency/0a/0a5f…/claim-6ba7…     which claim it is, from its beginning until it is settled or taken over
 *
 * They are changed together or not at all. The version of the record is what a change is compared by, but a record that
 * was purged and made again begins at the same version; so a change by an owner also asks for the node of its claim.
 */

import { digestOf } from '../../core/names.js'
import type { Found } from '../../core/record-rule.js'
import { checkRecordKey, RECORDS_PART, readRecordText, type StoredRecord } from '../shared/record-text.js'
import type { Stat } from './wire/zookeeper.js'

const OWNER = 'owner'

/** An owner that lives has two nodes below the record: its own and that of its claim. */
const CHILDREN_OF_THE_LIVING = 2

/** What a change must still find, and what it has to know of it. */
export interface NodeVersion {
  readonly version: number
  /** The node of the claim that is under way; null: none is. */
  readonly claim: string | null
  /** Whether the node of the owner was there. */
  readonly isOwned: boolean
  readonly leaseMs: number | null
  readonly retentionMs: number | null
  /** When its time is over; null: never. */
  readonly endsAtMs: number | null
}

/** A record as it was read, whether or not its time is over. */
export interface RecordNode {
  readonly found: Found
  readonly version: NodeVersion
}

export class RecordPaths {
  /** The folder of all records. */
  readonly root: string

  constructor(base: readonly string[]) {
    this.root = [...base, RECORDS_PART].map((part) => `/${part}`).join('')
  }

  /** Many small folders, because a server lists one as a whole. */
  folderOf(key: string): string {
    return `${this.root}/${key.slice(0, 2)}`
  }

  recordOf(key: string): string {
    return `${this.folderOf(checkRecordKey(key))}/${key}`
  }

  ownerOf(key: string): string {
    return `${this.recordOf(key)}/${OWNER}`
  }
}

/** The name of the node of a claim. Nobody can tell the owner's id from it. */
export function claimName(owner: string): string {
  return `claim-${digestOf(owner).slice(0, 32)}`
}

export function readRecordNode(key: string, data: Buffer, stat: Stat): RecordNode {
  const stored = readRecordText(data.toString('utf8'), { backend: 'zookeeper', key })
  const { record, leaseMs, retentionMs } = stored
  const isUnderWay = record.state === 'in-progress'
  const isOwned = isUnderWay && stat.numChildren >= CHILDREN_OF_THE_LIVING
  return {
    found: {
      record: {
        ...record,
        // The write of a claim carries no fence: its number is one.
        fence: record.fence ?? stat.mzxid,
        createdAtMs: record.createdAtMs ?? Number(stat.ctime),
      },
      leaseMs: isOwned ? (leaseMs ?? 0) : 0,
    },
    version: {
      version: stat.version,
      claim: isUnderWay ? claimName(record.owner) : null,
      isOwned,
      leaseMs,
      retentionMs,
      endsAtMs: endOf(stored, stat),
    },
  }
}

function endOf({ retentionMs, endsAtMs }: StoredRecord, { mtime }: Stat): number | null {
  if (endsAtMs !== null) return endsAtMs
  return retentionMs === null ? null : Number(mtime) + retentionMs
}

/**
 * An unfinished record is written again now and then, because its time counts from its last write and the servers do not
 * say when the node of its owner went.
 */
export function touchMs(retentionMs: number, sessionMs: number): number {
  return Math.max(sessionMs, Math.ceil(retentionMs / 8))
}
