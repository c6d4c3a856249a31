#!/usr/bin/env node
/** The `holdfast` command. */

import type { Cli } from './cli.js'
import { EXIT } from './exit-codes.js'
import { debugText, explain } from './failure.js'
import { Interruption, OutputFailed } from './interruption.js'
import { createProgram, splitArguments } from './program.js'
import { say } from './terminal.js'

/** Nothing should be left that keeps the process alive; if something is, the exit code still has to come. */
const EXIT_AT_LAST_MS = 2_000

function report(error: unknown): number {
  const { exitCode, message } = explain(error)
  if (message !== null) say(message)
  if (message !== null && process.env['HOLDFAST_DEBUG'] === '1') process.stderr.write(`${debugText(error)}\n`)
  return exitCode
}

/** What the end of the work and a failure of its output have to know of each other. */
const output: { failure: Error | null; workIsOver: boolean } = { failure: null, workIsOver: false }

async function main(argv: readonly string[]): Promise<number> {
  const interruption = new Interruption()
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    const reason = interruption.outputBroke(error)
    if (!(reason instanceof OutputFailed) || output.failure !== null) return
    output.failure = reason
    // The last line can fail after the work is done.
    if (output.workIsOver) process.exitCode = report(reason)
  })
  // There is no other place left to complain to.
  process.stderr.on('error', () => undefined)
  const { own, childCommand } = splitArguments(argv)
  const cli: Cli = { interruption, childCommand, exitCode: EXIT.ok }
  try {
    await createProgram(cli).parseAsync([...own], { from: 'user' })
    // A command that prints once does not look at the interruption.
    return output.failure === null ? cli.exitCode : report(output.failure)
  } catch (error) {
    return report(error)
  }
}

process.on('uncaughtException', (error) => process.exit(report(error)))
process.exitCode = await main(process.argv.slice(2))
output.workIsOver = true
setTimeout(() => process.exit(), EXIT_AT_LAST_MS).unref()
