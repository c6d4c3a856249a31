/** Tables for people, the same as data, and a chart. */

import { mkdir, writeFile } from 'node:fs/promises'
import { cpus, release as osRelease, totalmem, type } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Chart, drawCharts } from './chart.js'
import { driver } from './embedded/database.js'

/** What is good enough. */
export interface Bar {
  readonly sense: 'at least' | 'at most'
  readonly limit: number
}

export interface Row {
  readonly what: string
  readonly value: string
  /** What it is compared with, and what came out. */
  readonly against?: string
  /** A ratio, or a number with a unit: what the bar is about. */
  readonly figure?: number
  readonly unit?: string
  /** Rows without one are for information. */
  readonly bar?: Bar
}

export interface Section {
  readonly title: string
  readonly rows: readonly Row[]
}

export interface Report {
  readonly date: string
  readonly machine: string
  readonly node: string
  readonly sqliteDriver: string
  readonly quick: boolean
  readonly sections: readonly Section[]
  readonly charts: readonly Chart[]
}

export function makeReport(sections: readonly Section[], charts: readonly Chart[], quick: boolean): Report {
  const [cpu] = cpus()
  // The rest of it names a build, which says nothing to others.
  const [kernel] = /^\d+\.\d+/.exec(osRelease()) ?? [osRelease()]
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  return {
    date: new Date().toISOString(),
    machine: `${cpus().length} × ${cpu?.model.trim() ?? 'unknown'}, ${memory}, ${type()} ${kernel}`,
    node: process.version,
    sqliteDriver: driver,
    quick,
    sections,
    charts,
  }
}

export function atLeast(limit: number): Bar {
  return { sense: 'at least', limit }
}

export function atMost(limit: number): Bar {
  return { sense: 'at most', limit }
}

export function missesBar({ figure = Number.NaN, bar }: Row): boolean {
  if (bar === undefined) return false
  // A comparison that did not come to a number is no success either.
  return !(bar.sense === 'at least' ? figure >= bar.limit : figure <= bar.limit)
}

function verdict(row: Row): string {
  if (row.bar === undefined) return ''
  return missesBar(row) ? 'MISSED' : 'met'
}

function showFigure({ figure, unit }: Row): string {
  if (figure === undefined) return ''
  return unit === undefined ? figure.toFixed(2) : `${Math.round(figure).toLocaleString('en')} ${unit}`
}

function showBar({ bar }: Row): string {
  if (bar === undefined) return ''
  return `${bar.sense === 'at least' ? '≥' : '≤'} ${Number(bar.limit.toFixed(2))}`
}

export function asMarkdown(report: Report): string {
  const note = report.quick ? ' Quick run: fewer operations, so the numbers are rougher.' : ''
  return [
    `# Benchmark of ${report.date}`,
    '',
    `${report.machine}; Node ${report.node}; SQLite by ${report.sqliteDriver}.${note}`,
    '',
    ...report.sections.flatMap(({ title, rows }) => [`## ${title}`, '', ...table(rows), '']),
  ].join('\n')
}

function table(rows: readonly Row[]): readonly string[] {
  const lines = rows.map((row) => [
    row.what,
    row.value,
    row.against ?? '',
    showFigure(row),
    showBar(row),
    verdict(row),
  ])
  const head = ['what', 'measured', 'against', 'ratio', 'bar', '']
  const widths = head.map((title, column) =>
    Math.max(title.length, ...lines.map((line) => line[column]?.length ?? 0)),
  )
  const draw = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`
  return [draw(head), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...lines.map(draw)]
}

/** Writes the tables, and the data and the chart beside it, and says where. */
export async function save(report: Report): Promise<string> {
  const folder = join(dirname(fileURLToPath(import.meta.url)), '..', 'results')
  await mkdir(folder, { recursive: true })
  const base = join(folder, report.date.replaceAll(':', '-').replace(/\..*$/, ''))
  await writeFile(`${base}.md`, asMarkdown(report))
  await writeFile(`${base}.json`, `${JSON.stringify(report, null, 2)}\n`)
  if (report.charts.length > 0) {
    const footing = `${report.date.slice(0, 10)}; ${report.machine}; Node ${report.node}`
    await writeFile(`${base}.svg`, drawCharts(report.charts, footing))
  }
  return `${base}.md`
}
