/**
 * Runs checks of one recipe in a process of its own, and reports each as soon as it is over.
 *
 *     node --expose-gc surroundings.js SETUP
 */

import { context } from '../surroundings/checks/context.js'
import { memory } from '../surroundings/checks/memory.js'
import { statements } from '../surroundings/checks/statements.js'
import { probeFor } from '../surroundings/probes/index.js'
import { seeded } from '../surroundings/random.js'
import type { WorkerReport, WorkerSetup } from '../surroundings/run.js'
import type { Check, CheckName, Finding, Library, Subject } from '../surroundings/subject.js'
import { messageOf } from '../surroundings/waiting.js'

const IN_WORKER: Readonly<Partial<Record<CheckName, Check>>> = { context, memory, statements }

const setup = JSON.parse(process.argv[2] ?? '{}') as WorkerSetup
const { recipe, sizes, seed } = setup
const subject: Subject = {
  ...recipe,
  library: (await import(setup.library)) as Library,
  sizes,
  random: seeded(seed),
  probe: probeFor(recipe),
}

// A check that waits for a callback would otherwise end the process.
const running = setInterval(() => {}, 1_000)
for (const check of setup.checks) {
  await new Promise<void>((resolve) => {
    const report = (findings: readonly Finding[] | null): void => {
      process.send?.({ check, findings } satisfies WorkerReport, () => resolve())
    }
    IN_WORKER[check]?.(subject).then(report, (error: unknown) =>
      report([{ what: 'the check itself', message: stackOf(error) }]),
    )
  })
}
clearInterval(running)
process.disconnect()

function stackOf(error: unknown): string {
  return error instanceof Error ? `${messageOf(error)} ${error.stack ?? ''}` : messageOf(error)
}
