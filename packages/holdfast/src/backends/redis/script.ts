import { createHash } from 'node:crypto'
import { redisErrorCode } from './errors.js'

/** A Lua script, sent by its digest; a server that does not know it, or has forgotten it, gets the text once. */
export class Script {
  readonly source: string
  readonly sha: string

  constructor(source: string) {
    this.source = source
    this.sha = createHash('sha1').update(source).digest('hex')
  }

  /** `send` is called a second time if, and only if, the server has certainly not run the first. */
  run(
    send: (command: readonly string[]) => Promise<unknown>,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<unknown> {
    return send(this.byDigest(keys, args)).catch((error: unknown) => {
      if (redisErrorCode(error) !== 'NOSCRIPT') throw error
      return send(this.byText(keys, args))
    })
  }

  byDigest(keys: readonly string[], args: readonly string[]): readonly string[] {
    return ['EVALSHA', this.sha, String(keys.length), ...keys, ...args]
  }

  byText(keys: readonly string[], args: readonly string[]): readonly string[] {
    return ['EVAL', this.source, String(keys.length), ...keys, ...args]
  }
}
