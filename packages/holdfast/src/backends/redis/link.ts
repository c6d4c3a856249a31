/** What the recipes need of Redis, whichever library and topology it is reached through. */

export interface RedisNode {
  send(args: readonly string[]): Promise<unknown>
}

export interface Subscription {
  close(): Promise<void>
}

export interface SubscriptionEvents {
  message(text: string): void
  /** The subscription stands again after it was interrupted, so messages may have been missed. */
  restored(): void
}

export interface RedisLink {
  /** Whether keys live on several nodes, so that only those of one slot may be used together. */
  readonly isCluster: boolean
  /** What the client itself puts before every key, which only shows where keys are listed. */
  readonly keyPrefix: string
  /** Sends one command to the node that has the key. */
  send(key: string, args: readonly string[]): Promise<unknown>
  /**
   * Sends the commands one right after the other over one connection to the node that has the key, and follows no
   * redirection. Gives one answer or error for each.
   */
  sendTogether(key: string, commands: readonly (readonly string[])[]): Promise<readonly unknown[]>
  /** Every node that has keys of its own. */
  masters(): Promise<readonly RedisNode[]>
  subscribe(channel: string, events: SubscriptionEvents): Promise<Subscription>
  /** Ends what Holdfast itself has opened. A client that was given stays open. */
  close(): Promise<void>
}

/** What to do at the end with a client: nothing, if it was given. */
export type End = () => Promise<void>

/** The commands are written before anything is awaited, which is what keeps them together on a connection. */
export async function sendAll(
  node: RedisNode,
  commands: readonly (readonly string[])[],
): Promise<readonly unknown[]> {
  const settled = await Promise.allSettled(commands.map((command) => node.send(command)))
  return settled.map((each) => (each.status === 'fulfilled' ? each.value : each.reason))
}
