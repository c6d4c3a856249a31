import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { execPath } from 'node:process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { freshName } from './line-support.js'

const script = fileURLToPath(new URL('./exiting-child.mjs', import.meta.url))

/** Far longer than any timer of a driver or of the library that only shows up late. */
const EXIT_MS = 60_000

/** What a process said that locked over the URL, and whether it ended by itself. */
export async function runToItsEnd(url: string): Promise<{ said: string; code: number | null }> {
  const child = spawn(execPath, [script, url, freshName()], { stdio: ['ignore', 'pipe', 'inherit'] })
  const timer = setTimeout(() => child.kill('SIGKILL'), EXIT_MS)
  try {
    const [said, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
    return { said: said.trim(), code }
  } finally {
    clearTimeout(timer)
  }
}
