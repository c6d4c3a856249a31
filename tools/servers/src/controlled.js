// @ts-check
import { ProgramMissingError } from './programs.js'

/**
 * A store whose servers are its control. It is not run if a program that it needs is missing.
 * @param {string} name
 * @param {object} options
 * @param {readonly string[]} options.programs
 * @param {readonly string[]} [options.extras]
 * @param {() => Promise<{ readonly url: string, dispose(): Promise<void> }>} options.start
 * @returns {import('./store.js').StoreDefinition}
 */
export function controlledStore(name, { programs, extras = [], start }) {
  return {
    name,
    programs,
    extras,
    start: async () => {
      try {
        const control = await start()
        const { url } = control
        return { kind: 'ready', store: { name, url, control, dispose: () => control.dispose() } }
      } catch (error) {
        if (!(error instanceof ProgramMissingError)) throw error
        return { kind: 'not run', name, reason: error.reason }
      }
    },
  }
}
