import { createInterface } from 'node:readline/promises'
import { Command } from 'commander'
import type { ClaimView, Locks, ResourceView } from 'holdfast'
import { urlOption } from '../arguments.js'
import type { Cli } from '../cli.js'
import { EXIT } from '../exit-codes.js'
import { UsageError } from '../failure.js'
import { formatDuration } from '../format/duration.js'
import { escapeText } from '../format/escape.js'
import { describeOwner, hiddenOf, holdersOf, quoteName, resourceLines } from '../format/views.js'
import { withLocks } from '../store.js'
import { printLines, say } from '../terminal.js'

interface BreakOptions {
  readonly url?: string
  readonly reason: string
  readonly ref?: string
  readonly yes?: true
}

const EXAMPLES = `
Examples:
  holdfast break deploy:shop --reason "host web-3 is gone"
  holdfast break thumbnails --ref 5f0c2a91be77 --reason "stuck since Monday" --yes

The old holder is told at its next renewal, and until then believes that it holds the lock.
Let the resource refuse a fence that is lower than one it has seen, and that does no harm.

Exit codes:
  0    something was evicted
  1    there was nothing to evict, it was not confirmed, or more holders are left than the store shows at a time
  64   wrong usage
  69   the store is not available`

export function breakCommand(cli: Cli): Command {
  return new Command('break')
    .summary('take a lock away from whoever holds it')
    .description('Evict the holders of a lock, or one claim on it, so that the next in line gets it.')
    .argument('<name>', 'the name of the lock')
    .addOption(urlOption())
    .requiredOption('--reason <text>', 'why, for whoever asks later')
    .option('--ref <ref>', 'only this claim, holder or waiter, by the REF that "holdfast show" prints')
    .option('-y, --yes', 'do not ask on a terminal')
    .addHelpText('after', EXAMPLES)
    .action(async (name: string, options: BreakOptions) => {
      cli.exitCode = await breakLock(cli, name, options)
    })
}

async function breakLock(cli: Cli, name: string, options: BreakOptions): Promise<number> {
  const { reason, ref } = options
  if (reason.trim() === '') throw new UsageError('--reason must say why')
  const { signal } = cli.interruption
  return await withLocks(options.url, signal, async (locks) => {
    const view = await locks.inspect(name)
    const meant = ref === undefined ? view.holders : allClaims(view).filter((claim) => claim.ref === ref)
    if (meant.length === 0) {
      say(nothingToDo(view, ref))
      return EXIT.nothing
    }
    if (options.yes !== true && process.stdin.isTTY && !(await confirm(view, meant, signal))) {
      say('nothing was evicted')
      return EXIT.nothing
    }
    signal.throwIfAborted()
    const code = await evict(locks, view, meant, reason)
    const left = ref === undefined ? holdersOf(view) - view.holders.length : 0
    if (left === 0) return code
    say(`${left} more holders were not shown, and keep the lock: run the command again to evict them`)
    return EXIT.nothing
  })
}

function allClaims(view: ResourceView): ClaimView[] {
  return [...view.holders, ...view.waiters]
}

function nothingToDo(view: ResourceView, ref: string | undefined): string {
  const name = quoteName(view.resource)
  if (ref === undefined) return `${name} is not held, so nothing was evicted`
  const hidden = hiddenOf(view)
  const part = hidden === 0 ? '' : `, but the store does not show ${hidden} of its claims`
  return `there is no claim ${quoteName(ref)} on ${name}${part}, so nothing was evicted`
}

async function confirm(
  view: ResourceView,
  meant: readonly ClaimView[],
  signal: AbortSignal,
): Promise<boolean> {
  process.stderr.write(`${resourceLines(view, process.stderr.columns).join('\n')}\n\n`)
  const who = meant.map(describeOwner).join(', ')
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  // With a terminal in line mode Ctrl-C comes as an event of the prompt and not as a signal.
  prompt.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  try {
    const question = `Evict ${who} from ${quoteName(view.resource)}? [y/N] `
    // An end of input closes the prompt and leaves its question open for ever.
    const unanswered = new Promise<string>((resolve) => {
      prompt.once('close', () => resolve(''))
    })
    const answer = await Promise.race([prompt.question(question, { signal }), unanswered])
    return /^y(es)?$/i.test(answer.trim())
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    prompt.close()
  }
}

/** Each claim is evicted by its reference, so that nobody who came after the question was asked is hit. */
async function evict(
  locks: Locks,
  view: ResourceView,
  meant: readonly ClaimView[],
  reason: string,
): Promise<number> {
  const holding = new Set(view.holders.map((claim) => claim.ref))
  const evicted: ClaimView[] = []
  for (const claim of meant) {
    const role = holding.has(claim.ref) ? 'holder' : 'waiter'
    const who = `${role} ${describeOwner(claim)}, ref ${escapeText(claim.ref)}`
    const done = await locks.evict(view.resource, { reason, ref: claim.ref })
    if (done.length === 0) {
      printLines([`Already gone: ${who}`])
      continue
    }
    const fence = claim.fence === null ? '' : `, fence ${claim.fence}`
    printLines([`Evicted ${who}${fence}, in line for ${formatDuration(claim.ageMs)}`])
    evicted.push(claim)
  }
  if (evicted.length === 0) return EXIT.nothing
  printLines([
    `Reason: ${escapeText(reason)}`,
    consequence(evicted.filter((claim) => holding.has(claim.ref))),
  ])
  return EXIT.ok
}

function consequence(evictedHolders: readonly ClaimView[]): string {
  if (evictedHolders.length === 0) return 'The holders keep the lock.'
  const fences = evictedHolders.flatMap((claim) => (claim.fence === null ? [] : [claim.fence]))
  if (fences.length === 0) return 'The store mints no fences: make sure that the old holder has stopped.'
  const highest = fences.reduce((max, fence) => (fence > max ? fence : max))
  return `The next holder has a higher fence than ${highest}.`
}
