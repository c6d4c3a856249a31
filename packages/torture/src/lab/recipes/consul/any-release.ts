import { SessionLock } from './session-lock.js'

/** Tidies up behind itself: the key is deleted, whoever has locked it by then. */
export class AnyRelease extends SessionLock {
  protected async giveBack(key: string, session: string): Promise<'released' | 'gone'> {
    await this.consul.delete(key)
    await this.consul.destroySession(session)
    return 'released'
  }
}
