import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { execPath } from 'node:process'
import { fileURLToPath } from 'node:url'

/** Starts a script of this folder that takes a lock and prints its fence or `none`, and kills it while it holds. */
export async function killWhileHolding(
  script: string,
  args: readonly string[],
): Promise<{ fence: bigint | null }> {
  const path = fileURLToPath(new URL(script, import.meta.url))
  const holder = spawn(execPath, [path, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(holder, 'exit')
  const printed = await Promise.race([once(holder.stdout, 'data'), exited.then(() => null)])
  if (printed === null) throw new Error(`${script} ended before it held the lock; is the library built?`)
  holder.kill('SIGKILL')
  await exited
  const fence = String(printed[0]).trim()
  return { fence: fence === 'none' ? null : BigInt(fence) }
}
