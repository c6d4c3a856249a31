import type { Scene } from '../../scene.js'
import type { KeyStore } from './token-stores.js'

/** Two requests with the same key, the second while the first has decided to do the work and has not yet done it. */
export async function twoAtOnce(scene: Scene, store: KeyStore, key: string): Promise<void> {
  const [a, b] = [await scene.actor('A'), await scene.actor('B')]
  await a.act('issue', key)
  await a.arm('before the work', 'wait')
  const first = a.act('submit', key)
  await a.reaches('before the work')
  let answered = false
  const second = b.act('submit', key).finally(() => {
    answered = true
  })
  // One that waits for the first cannot be answered before it goes on.
  await scene.until(async () => answered || (await store.someoneWaits()))
  await a.go('before the work')
  await Promise.all([first, second])
}
