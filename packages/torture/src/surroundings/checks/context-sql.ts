import type { Scene } from './context.js'

export async function sqlCallers(_scene: Scene): Promise<void> {}
