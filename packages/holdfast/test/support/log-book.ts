import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A file that everybody in a critical section writes into, whatever language they are in: a line when they are in, and a
 * line before they go. Lines are only ever added, so their order is that of what happened.
 */
export class LogBook {
  readonly folder = mkdtempSync(join(tmpdir(), 'holdfast-book-'))
  readonly file = join(this.folder, 'book')

  constructor() {
    writeFileSync(this.file, '')
  }

  enter(who: string, kind = 'write'): void {
    appendFileSync(this.file, `enter ${who} ${kind}\n`)
  }

  leave(who: string, kind = 'write'): void {
    appendFileSync(this.file, `leave ${who} ${kind}\n`)
  }

  /** How often each was in, and the lines at which somebody came in who should not have. At most `limit` may be in. */
  read(limit = 1): { readonly rounds: ReadonlyMap<string, number>; readonly faults: readonly string[] } {
    const rounds = new Map<string, number>()
    const faults: string[] = []
    const inside: string[] = []
    const lines = readFileSync(this.file, 'utf8').split('\n').filter(Boolean)
    for (const [index, line] of lines.entries()) {
      const [what, who = '', kind = ''] = line.split(' ')
      const each = `${who} ${kind}`
      if (what === 'leave') {
        const place = inside.indexOf(each)
        if (place < 0) faults.push(`${index}: ${line}, but it was not in`)
        else inside.splice(place, 1)
        continue
      }
      const isShared = kind === 'read' && inside.every((other) => other.endsWith(' read'))
      if (!isShared && inside.length >= limit) faults.push(`${index}: ${line}, with ${inside.join(', ')} in`)
      inside.push(each)
      rounds.set(who, (rounds.get(who) ?? 0) + 1)
    }
    return { rounds, faults: [...faults, ...inside.map((each) => `${each} never left`)] }
  }

  /** How often one was in right after the other: whether they really met. */
  turns(): number {
    const lines = readFileSync(this.file, 'utf8').split('\n')
    const who = lines.filter((line) => line.startsWith('enter')).map((line) => line.split(' ')[1])
    return who.filter((each, index) => index > 0 && each !== who[index - 1]).length
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}
