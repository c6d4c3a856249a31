import type { ReportData, ViolationData } from '../data.js'
import { chartsOf } from './charts.js'
import { el } from './dom.js'
import { facts, summaryOf } from './summary.js'
import { faultTable, violationTable } from './tables.js'
import { Timeline } from './timeline.js'
import { legend, toolbarOf } from './toolbar.js'
import { View } from './view.js'

function build(data: ReportData, root: HTMLElement): void {
  const view = new View(data.span)
  const live = el('div', { class: 'sr', role: 'status', 'aria-live': 'polite', id: 'live' })
  const timeline = new Timeline(data, view, live, root)
  const toolbar = toolbarOf(data, view, timeline)
  const showViolation = (index: number): void => {
    const violation = data.violations[index]
    if (violation === undefined) return
    toolbar.clear()
    const { from, to } = surroundings(violation)
    view.show(from, to)
    timeline.choose(index)
    live.textContent = `Showing ${violation.kind} at ${(violation.at / 1e6).toFixed(3)} seconds`
    timeline.element.scrollIntoView({ block: 'nearest' })
  }
  const showFault = (from: number, to: number): void => {
    const length = Math.max(1_000, to - from)
    view.show(from - length * 0.3, to + length * 0.3)
    timeline.element.scrollIntoView({ block: 'nearest' })
  }
  root.append(summaryOf(data), live)
  if (data.violations.length > 0) {
    root.append(heading('Violations', count(data.violations.length)), violationTable(data, showViolation))
  }
  root.append(heading('Timeline', thinning(data)), toolbar.element, timeline.element, legend())
  root.append(heading('Over time', 'faults shaded; drag to choose what the timeline shows'))
  root.append(chartsOf(data, view))
  if (data.faults.length > 0) {
    root.append(heading('Faults injected', count(data.faults.length)), faultTable(data, showFault))
  }
  if (data.guarantees.length > 0) {
    root.append(heading('Guarantees of the recipe', ''), facts('facts', data.guarantees))
  }
  root.append(el('footer', {}, `Written by ${data.generatedBy}. This file loads nothing and sends nothing.`))
  timeline.refresh()
}

/** A violation with as much before and after it as it is long, so that its causes are in sight. */
function surroundings({ at, involved }: ViolationData): { from: number; to: number } {
  const from = Math.min(at, ...involved.map((span) => span.from))
  const to = Math.max(at, ...involved.map((span) => span.to))
  const around = Math.max(2_000, (to - from) * 0.75)
  return { from: from - around, to: to + around }
}

function heading(text: string, aside: string): HTMLElement {
  return el('h2', {}, text, ' ', el('span', { class: 'aside' }, aside))
}

function count(value: number): string {
  return value.toLocaleString('en-US')
}

function thinning({ spans }: ReportData): string {
  if (spans.kept === spans.total) return ''
  return `${count(spans.kept)} of ${count(spans.total)} holds and waits are drawn: all near violations, and an even part of the others`
}

const root = document.getElementById('report')
const text = document.getElementById('data')?.textContent
if (root !== null && text !== undefined && text !== null) {
  const data: ReportData = JSON.parse(text)
  build(data, root)
  root.dataset['ready'] = ''
}
