/**
 * What a store must be able to do whose claims are nodes that a session keeps: ephemeral nodes of ZooKeeper, keys with a
 * lease of etcd. Each claim is one node, the order of their making is the line, and the end of the session removes them.
 */

import type { Claim, ClaimView, Guarantees, HolderNote, Shape } from '../../core/backend.js'

/** Something that lives at the server as long as it hears from us. */
export interface NodeSession {
  /** It is over for certain, and so is everything that it kept. Final. */
  readonly isEnded: boolean
  /** Ends it, and with it every node that it keeps. It takes a bounded time and never rejects. */
  end(): Promise<void>
}

/** A node of somebody, as far as the rule needs to know it. */
export interface LineNode {
  /** What the store calls it. No other node ever has the same. */
  readonly key: string
  readonly shape: Shape
  readonly weight: number
}

/** The node of a claim of this client. */
export interface OwnNode {
  readonly key: string
  /** The store's number for the step that made it. */
  readonly fence: bigint
}

export interface Read {
  /** The nodes from the first one up to and including our own, in order. */
  readonly line: readonly LineNode[]
  /**
   * The session, which this answer confirms, lives at least until then, by the monotonic clock. It is counted from before
   * the request was sent that was answered.
   */
  readonly aliveUntil: number
}

export interface Joined extends Read {
  readonly own: OwnNode
}

/** One node of a line as people may see it. */
export interface ViewedNode extends LineNode {
  readonly view: Omit<ClaimView, 'weight'>
}

export interface Confirmed<Own extends OwnNode = OwnNode> {
  /** Those that are there. The others are certainly not. */
  readonly there: ReadonlySet<Own>
  readonly aliveUntil: number
}

/**
 * Every call rejects with a `BackendUnavailableError` or an `OutcomeUnknownError` where there is no answer, and has a
 * deadline of its own. What rejects with anything else had no effect.
 */
export interface LineNodes<Session extends NodeSession, Own extends OwnNode> {
  readonly name: string
  readonly guarantees: Guarantees
  /** Claims whose ttl gives the same number share a session; it lives for at least the ttl after each confirmation. */
  sessionKey(ttlMs: number): number
  /** `ended` is called once, when it is certain that the session is over, unless it was ended here. */
  startSession(key: number, ended: () => void): Promise<Session>
  /** Makes the node of the claim at the end of its line, or finds the one that an earlier try of the same claim made. */
  join(session: Session, claim: Claim): Promise<Joined & { readonly own: Own }>
  /** The line as it is now, asked of those who decide; null if our node is not in it any more. */
  read(session: Session, claim: Claim, own: Own): Promise<Read | null>
  /**
   * Calls `changed` once as soon as one of the nodes is gone or weighs less, or if that cannot be told any more. One that has
   * gone since `line` was read counts. Names the node if it is certainly gone. Gives a function that ends the watch.
   */
  watch(
    session: Session,
    claim: Claim,
    nodes: readonly LineNode[],
    changed: (gone?: LineNode) => void,
  ): () => void
  /** Lowers the weight of our own node where it stands. */
  lighten(session: Session, claim: Claim, own: Own): Promise<void>
  /** Removes every node of the claim that this session keeps, and no others; `own` is null if it is not known. */
  remove(session: Session, claim: Claim, own: Own | null): Promise<boolean>
  /** Asks those who decide whether the session lives, and which of its nodes are there. */
  confirm(session: Session, own: readonly Own[]): Promise<Confirmed<Own>>
  /** Puts the node under another session without losing its place. Only stores with several kinds of session have it. */
  move?(from: Session, to: Session, claim: Claim, own: Own): Promise<boolean>
  /** Who has the node; null where it does not say. */
  holderOf(claim: Claim, node: LineNode): Promise<HolderNote | null>
  /** The whole line of a name, for people. */
  view(resource: string): Promise<readonly ViewedNode[]>
  /** Names that begin like this and on which there may be nodes. */
  names(prefix: string): AsyncIterable<string>
  /** Removes somebody's node; false if it is gone already. */
  removeViewed(resource: string, node: ViewedNode): Promise<boolean>
  close(): Promise<void>
}
