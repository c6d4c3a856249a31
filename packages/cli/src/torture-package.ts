import { UsageError } from './failure.js'

export type TorturePackage = typeof import('holdfast-torture')

/** The package is big and most users never need it, so it is loaded when a command asks for it, and may be missing. */
export async function loadTorture(command: string): Promise<TorturePackage> {
  try {
    return await import('holdfast-torture')
  } catch (error) {
    if (!isMissing(error)) throw error
    throw new UsageError(
      `"holdfast ${command}" needs the package holdfast-torture: install it beside holdfast-cli`,
    )
  }
}

function isMissing(error: unknown): boolean {
  if (!(error instanceof Error) || Reflect.get(error, 'code') !== 'ERR_MODULE_NOT_FOUND') return false
  return error.message.includes("'holdfast-torture'")
}
