import { loadLibrary } from '../../actor.js'
import type { Scene } from '../../scene.js'

/**
 * Starts a database with the tables of the library and those of the recipe in it, for both contenders, as a deployment
 * would have them.
 */
export function prepared(store: 'postgres' | 'mariadb', tables: readonly string[]) {
  return async (scene: Scene): Promise<void> => {
    const server = await scene.start(store)
    await migrate(scene.url)
    for (const table of tables) await server.query(table)
  }
}

export async function migrate(url: string): Promise<void> {
  const { connect } = await loadLibrary()
  const locks = await connect(url)
  await locks.migrate()
  await locks.close()
}
