import { Command } from 'commander'
import packageJson from '../package.json' with { type: 'json' }
import type { Cli } from './cli.js'
import { breakCommand } from './commands/break.js'
import { checkCommand } from './commands/check.js'
import { demoCommand } from './commands/demo.js'
import { doctorCommand } from './commands/doctor.js'
import { labCommand } from './commands/lab.js'
import { lsCommand } from './commands/ls.js'
import { migrateCommand } from './commands/migrate.js'
import { runCommand } from './commands/run.js'
import { serveCommand } from './commands/serve.js'
import { showCommand } from './commands/show.js'
import { tokenCommand } from './commands/token.js'
import { tortureCommand } from './commands/torture.js'
import { redactCredentials } from './format/escape.js'
import { say } from './terminal.js'

const ABOUT = `
Examples:
  holdfast serve
  holdfast run nightly-backup --wait 0s -- ./backup.sh
  holdfast ls
  holdfast show nightly-backup

The store is --url, or HOLDFAST_URL, or a file per user that all processes of this machine share.
"holdfast help COMMAND" tells more about one of the commands, and about its exit codes.`

export interface SplitArguments {
  readonly own: readonly string[]
  readonly childCommand: readonly string[] | null
}

/**
 * Takes the command behind `--` out before anything is parsed, so that no option of it can be taken for ours.
 * For the other commands `--` keeps its usual meaning: names that begin with a dash come after it.
 */
export function splitArguments(argv: readonly string[]): SplitArguments {
  const dashes = argv[0] === 'run' ? argv.indexOf('--') : -1
  if (dashes < 0) return { own: argv, childCommand: null }
  return { own: argv.slice(0, dashes), childCommand: argv.slice(dashes + 1) }
}

const COMMANDS = [
  runCommand,
  lsCommand,
  showCommand,
  breakCommand,
  doctorCommand,
  migrateCommand,
  serveCommand,
  tokenCommand,
  demoCommand,
  checkCommand,
  labCommand,
  tortureCommand,
] as const

export function createProgram(cli: Cli): Command {
  const program = new Command('holdfast')
    .description('Distributed locks from the command line.')
    .usage('COMMAND [options]')
    .version(packageJson.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .helpCommand('help [command]', 'show help about a command')
    .configureHelp({ subcommandTerm: (command) => `${command.name()} ${command.usage()}` })
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({ outputError: (text) => say(oneLine(text)) })
    .addHelpText('after', ABOUT)
  for (const command of COMMANDS) {
    const made = command(cli).copyInheritedSettings(program)
    for (const below of made.commands) below.copyInheritedSettings(program)
    program.addCommand(made)
  }
  // Without this the most likely mistake would be answered with a riddle about some option of the command.
  program.commands
    .find((command) => command.name() === 'run')
    ?.configureOutput({
      outputError: (text) =>
        say(cli.childCommand === null ? `${oneLine(text)} ${BEHIND_DASHES}` : oneLine(text)),
    })
  return program
}

const BEHIND_DASHES = '(the command goes behind "--": holdfast run NAME -- COMMAND...)'

function oneLine(text: string): string {
  const line = text.trim().replace(/^error: /, '')
  return redactCredentials(line.replaceAll(/\s*\n\s*/g, ' '))
}
