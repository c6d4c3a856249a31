import { Command } from 'commander'
import { examine, type Finding } from 'holdfast'
import { urlOption } from '../arguments.js'
import type { Cli } from '../cli.js'
import { EXIT } from '../exit-codes.js'
import { findingLines } from '../format/findings.js'
import { toJson } from '../format/views.js'
import { orAborted } from '../interruption.js'
import { storeUrl } from '../store.js'
import { printLines } from '../terminal.js'

interface DoctorOptions {
  readonly url?: string
  readonly json?: true
}

const EXAMPLES = `
Examples:
  holdfast doctor --url redis://cache-1:6379
  holdfast doctor --url 'redis+sentinel://s1,s2,s3/main?waitReplicas=1'
  holdfast doctor --url 'postgres://app@db-1/shop?recipe=advisory'
  holdfast doctor --json | jq '.[] | select(.level == "danger")'

Nothing is changed at the store, and no lock is touched.

Exit codes:
  0    nothing worse than a note was found
  1    there is a warning or a danger
  64   wrong usage, or a login that the store does not accept
  69   the store is not available`

export function doctorCommand(cli: Cli): Command {
  return new Command('doctor')
    .summary('look for what would break locks in how the store is set up')
    .description('Look for what would break locks in how the store is set up, and say what to do about it.')
    .addOption(urlOption())
    .option('--json', 'print an array of objects')
    .addHelpText('after', EXAMPLES)
    .action(async (options: DoctorOptions) => {
      cli.exitCode = await doctor(cli, options)
    })
}

async function doctor(cli: Cli, options: DoctorOptions): Promise<number> {
  const findings = await orAborted(examine(storeUrl(options.url)), cli.interruption.signal)
  printLines(options.json ? [toJson(findings, 2)] : findingLines(findings))
  return findings.some(isBad) ? EXIT.unwell : EXIT.ok
}

function isBad({ level }: Finding): boolean {
  return level === 'warning' || level === 'danger'
}
