/** A list in one column of one row: it is read, changed in memory, and written back under a condition. */

import type { Pool, ResultSetHeader, RowDataPacket } from 'mysql2/promise'
import type { LabHold, LabLock, LabWorld } from '../../lock.js'

export const TABLE_OF_LISTS =
  'CREATE TABLE carts (name varchar(200) PRIMARY KEY, items text NOT NULL, ' +
  'version bigint NOT NULL DEFAULT 1, updated_at datetime NOT NULL)'

interface ListRow extends RowDataPacket {
  readonly items: string
  readonly version: number
  readonly updated_at: string
}

/** What an actor is asked to do, all by `act`: `create`, `load`, `add` to what was loaded, and `look`. */
export abstract class SharedList implements LabLock {
  protected readonly pool: Pool
  readonly #world: LabWorld
  readonly #loaded = new Map<string, ListRow>()

  constructor(world: LabWorld, pool: Pool) {
    this.#world = world
    this.pool = pool
  }

  /** Whether the row was still as it had been loaded, and now has these items. */
  protected abstract save(name: string, loaded: ListRow, items: string): Promise<boolean>

  acquire(): Promise<LabHold | null> {
    throw new Error('This recipe has no lock.')
  }

  async act(what: string, input: unknown): Promise<unknown> {
    const { name, item } = input as { name: string; item: string }
    switch (what) {
      case 'create':
        return await this.pool.execute('INSERT INTO carts (name, items, updated_at) VALUES (?, ?, NOW())', [
          name,
          '[]',
        ])
      case 'load':
        return void this.#loaded.set(name, await this.#row(name))
      case 'add':
        return await this.#add(name, item)
      case 'look':
        return await this.#look(name)
      default:
        throw new Error(`This recipe cannot do '${what}'.`)
    }
  }

  async close(): Promise<void> {
    await this.pool.end()
  }

  async #add(name: string, item: string): Promise<boolean> {
    const loaded = this.#loaded.get(name)
    if (loaded === undefined) throw new Error('Nothing has been loaded.')
    const items = JSON.stringify([...itemsOf(loaded), item])
    this.#world.record({ f: 'add', type: 'invoke', k: name, v: { value: item } })
    const saved = await this.save(name, loaded, items)
    this.#world.record({
      f: 'add',
      type: saved ? 'ok' : 'fail',
      k: name,
      v: saved ? { value: item } : { error: 'STALE_VERSION' },
    })
    return saved
  }

  async #look(name: string): Promise<void> {
    this.#world.record({ f: 'read', type: 'invoke', k: name })
    const value = itemsOf(await this.#row(name))
    this.#world.record({ f: 'read', type: 'ok', k: name, v: { value } })
  }

  async #row(name: string): Promise<ListRow> {
    const [rows] = await this.pool.execute<ListRow[]>(
      'SELECT items, version, updated_at FROM carts WHERE name = ?',
      [name],
    )
    const [row] = rows
    if (row === undefined) throw new Error(`There is no row '${name}'.`)
    return row
  }
}

/** Takes a row whose timestamp is what it was for a row that nobody has changed. */
export class BySecond extends SharedList {
  protected async save(name: string, { updated_at }: ListRow, items: string): Promise<boolean> {
    const [{ affectedRows }] = await this.pool.execute<ResultSetHeader>(
      'UPDATE carts SET items = ?, updated_at = NOW() WHERE name = ? AND updated_at = ?',
      [items, name, updated_at],
    )
    return affectedRows === 1
  }
}

export class ByVersion extends SharedList {
  protected async save(name: string, { version }: ListRow, items: string): Promise<boolean> {
    const { updateVersioned } = await import('holdfast/optimistic')
    try {
      await updateVersioned(this.pool, { table: 'carts', key: { name }, version, set: { items } })
      return true
    } catch (error) {
      if (error instanceof Error && Reflect.get(error, 'code') === 'STALE_VERSION') return false
      throw error
    }
  }
}

function itemsOf({ items }: ListRow): string[] {
  return JSON.parse(items) as string[]
}
