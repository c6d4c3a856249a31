import { describe, expect, it } from 'vitest'
import { SessionPool } from '../../src/backends/sessions/session-pool.js'
import { ClosedError } from '../../src/core/errors.js'

class Session {
  isEnded = false
  readonly key: number
  readonly ended: (session: Session) => void

  constructor(key: number, ended: (session: Session) => void) {
    this.key = key
    this.ended = ended
  }

  async end(): Promise<void> {
    this.isEnded = true
  }

  /** What the server does to it. */
  expire(): void {
    this.isEnded = true
    this.ended(this)
  }
}

function poolOf(start = async (session: Session): Promise<Session> => session): {
  readonly pool: SessionPool<Session>
  readonly ended: Session[]
} {
  const ended: Session[] = []
  const pool = new SessionPool<Session>(
    'test',
    (key, told) => start(new Session(key, told)),
    (session) => ended.push(session),
  )
  return { pool, ended }
}

describe('the sessions of a client', () => {
  it('are shared by claims of one kind, also while they start, and by no others', async () => {
    const { pool } = poolOf()
    const [a, b, other] = await Promise.all([pool.enter(1), pool.enter(1), pool.enter(2)])
    expect(a).toBe(b)
    expect(other).not.toBe(a)
    pool.leave(a)
    pool.leave(b)
    expect(a.isEnded).toBe(false)
    expect(await pool.enter(1)).toBe(a)
  })

  it('take no more claims once they are in doubt, and end with the last that they have', async () => {
    const { pool, ended } = poolOf()
    const first = await pool.enter(1)
    await pool.enter(1)
    pool.doubt(first)
    const second = await pool.enter(1)
    expect(second).not.toBe(first)
    pool.leave(first)
    expect(first.isEnded).toBe(false)
    pool.leave(first)
    expect(first.isEnded).toBe(true)
    expect(second.isEnded).toBe(false)
    // That was not the server's doing, so nobody lost anything.
    expect(ended).toEqual([])
  })

  it('end at once if they are in doubt and have no claims', async () => {
    const { pool } = poolOf()
    const session = await pool.enter(1)
    pool.leave(session)
    pool.doubt(session)
    expect(session.isEnded).toBe(true)
  })

  it('are replaced when the server has ended them, and that is told once', async () => {
    const { pool, ended } = poolOf()
    const session = await pool.enter(1)
    session.expire()
    expect(ended).toEqual([session])
    pool.leave(session)
    pool.doubt(session)
    expect(await pool.enter(1)).not.toBe(session)
  })

  it('are tried again when they could not be started', async () => {
    let tries = 0
    const { pool } = poolOf(async (session) => {
      tries += 1
      if (tries === 1) throw new Error('nobody there')
      return session
    })
    await expect(pool.enter(1)).rejects.toThrow('nobody there')
    expect((await pool.enter(1)).key).toBe(1)
  })

  it('that ended while they were started are not given to anybody', async () => {
    let tries = 0
    const { pool } = poolOf(async (session) => {
      tries += 1
      if (tries === 1) session.expire()
      return session
    })
    expect((await pool.enter(1)).isEnded).toBe(false)
    expect(tries).toBe(2)
  })

  it('all end with the client, also those that come late', async () => {
    let arrive: () => void = () => {}
    const late = new Promise<void>((resolve) => {
      arrive = resolve
    })
    const { pool } = poolOf(async (session) => {
      if (session.key === 2) await late
      return session
    })
    const session = await pool.enter(1)
    const coming = pool.enter(2)
    await pool.close()
    expect(session.isEnded).toBe(true)
    arrive()
    await expect(coming).rejects.toThrow(ClosedError)
    await expect(pool.enter(1)).rejects.toThrow(ClosedError)
  })
})
