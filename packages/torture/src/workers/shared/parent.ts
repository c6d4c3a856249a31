/** How a worker talks with the test that started it: objects with a `kind`, both ways. */

export interface Message {
  readonly kind: string
}

/** Tells the parent, and settles when the message has left this process. */
export function tell<M extends Message>(message: M): Promise<void> {
  return new Promise((resolve, reject) => {
    if (process.send === undefined) throw new Error('A worker must be started by a test.')
    process.send(message, undefined, {}, (error: Error | null) =>
      error === null ? resolve() : reject(error),
    )
  })
}

/** Waits for the parent to say so. */
export function told(kind: string): Promise<void> {
  return new Promise((resolve) => {
    const listen = (message: unknown): void => {
      if (typeof message !== 'object' || message === null || Reflect.get(message, 'kind') !== kind) return
      process.off('message', listen)
      resolve()
    }
    process.on('message', listen)
  })
}

/** The argument at this place of the command line. */
export function argument(index: number): string {
  const found = process.argv[2 + index]
  if (found === undefined) throw new Error(`The worker needs at least ${index + 1} arguments.`)
  return found
}

/** The code of the error that a call throws, or null if it throws none. */
export function codeThrownBy(call: () => unknown): string | null {
  try {
    call()
    return null
  } catch (error) {
    return codeOf(error)
  }
}

export function codeOf(error: unknown): string {
  const code: unknown = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  return typeof code === 'string' ? code : String(error)
}
