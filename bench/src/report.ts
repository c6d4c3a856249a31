/** One table for people and the same as data. */

import { mkdir, writeFile } from 'node:fs/promises'
import { cpus, release as osRelease, totalmem, type } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { driver } from './database.js'

export interface Row {
  readonly what: string
  readonly value: string
  /** What it is compared with, and what came out. */
  readonly against?: string
  readonly ratio?: number
  /** The least ratio that is good enough. Rows without one are for information. */
  readonly bar?: number
}

export interface Report {
  readonly date: string
  readonly machine: string
  readonly node: string
  readonly sqliteDriver: string
  readonly quick: boolean
  readonly rows: readonly Row[]
}

export function makeReport(rows: readonly Row[], quick: boolean): Report {
  const [cpu] = cpus()
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  return {
    date: new Date().toISOString(),
    machine: `${cpus().length} × ${cpu?.model.trim() ?? 'unknown'}, ${memory}, ${type()} ${osRelease()}`,
    node: process.version,
    sqliteDriver: driver,
    quick,
    rows,
  }
}

export function missesBar({ ratio, bar }: Row): boolean {
  // A comparison that did not come to a number is no success either.
  return bar !== undefined && !((ratio ?? Number.NaN) >= bar)
}

function verdict(row: Row): string {
  if (row.bar === undefined) return ''
  return missesBar(row) ? 'MISSED' : 'met'
}

export function asMarkdown(report: Report): string {
  const lines = report.rows.map((row) => {
    const ratio = row.ratio === undefined ? '' : row.ratio.toFixed(2)
    const bar = row.bar === undefined ? '' : `≥ ${row.bar}`
    return [row.what, row.value, row.against ?? '', ratio, bar, verdict(row)]
  })
  const head = ['what', 'measured', 'against', 'ratio', 'bar', '']
  const widths = head.map((title, column) =>
    Math.max(title.length, ...lines.map((line) => line[column]?.length ?? 0)),
  )
  const draw = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`
  const note = report.quick ? ' Quick run: fewer operations, so the numbers are rougher.' : ''
  return [
    `# Benchmark of ${report.date}`,
    '',
    `${report.machine}; Node ${report.node}; SQLite by ${report.sqliteDriver}.${note}`,
    '',
    draw(head),
    rule,
    ...lines.map(draw),
    '',
  ].join('\n')
}

/** Writes the table and the data beside it, and says where. */
export async function save(report: Report): Promise<string> {
  const folder = join(dirname(fileURLToPath(import.meta.url)), '..', 'results')
  await mkdir(folder, { recursive: true })
  const base = join(folder, report.date.replaceAll(':', '-').replace(/\..*$/, ''))
  await writeFile(`${base}.md`, asMarkdown(report))
  await writeFile(`${base}.json`, `${JSON.stringify(report, null, 2)}\n`)
  return `${base}.md`
}
