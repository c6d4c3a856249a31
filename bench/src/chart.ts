/** Horizontal bars as one SVG that needs no script and is readable on light and on dark pages. */

export interface ChartBar {
  readonly label: string
  readonly value: number
  /** What it says at the end of the bar. */
  readonly text: string
  readonly kind: 'ours' | 'raw' | 'peer'
}

export interface Chart {
  readonly title: string
  readonly better: 'more' | 'less'
  readonly bars: readonly ChartBar[]
}

const WIDTH = 860
const MARGIN = 20
const LABELS = 260
/** Room for the number behind the longest bar. */
const NUMBERS = 130
const LINE = 20
const THICKNESS = 13
const TITLE = 38
const GAP = 16

/** The colours have at least a contrast of 3 to their background for bars, and of 7 for text. */
const STYLE = `
  .page { fill: #ffffff; } text { fill: #1f2328; font: 13px system-ui, sans-serif; }
  .title { font-weight: 600; } .quiet { fill: #59636e; font-size: 12px; }
  .ours { fill: #1a7f37; } .raw { fill: #8250df; } .peer { fill: #818b98; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #f0f6fc; } .quiet { fill: #9198a1; }
    .ours { fill: #3fb950; } .raw { fill: #ab7df8; } .peer { fill: #656c76; }
  }`

export function drawCharts(charts: readonly Chart[], footing: string): string {
  const drawn: string[] = []
  let y = MARGIN
  for (const chart of charts) {
    drawn.push(drawChart(chart, y))
    y += TITLE + chart.bars.length * LINE + GAP
  }
  const height = y + MARGIN
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img">`,
    '<title>Benchmarks of Holdfast beside its peers</title>',
    `<style>${STYLE}\n</style>`,
    `<rect class="page" width="${WIDTH}" height="${height}" rx="6"/>`,
    ...drawn,
    `<text class="quiet" x="${MARGIN}" y="${height - MARGIN + 4}">${escapeXml(footing)}</text>`,
    '</svg>',
    '',
  ].join('\n')
}

function drawChart({ title, better, bars }: Chart, top: number): string {
  const longest = Math.max(...bars.map(({ value }) => value), Number.MIN_VALUE)
  const scale = (WIDTH - 2 * MARGIN - LABELS - NUMBERS) / longest
  const hint = better === 'more' ? 'longer is better' : 'shorter is better'
  const lines = bars.map(({ label, value, text, kind }, index) => {
    const y = top + TITLE + index * LINE
    // Every bar is visible, also the one that is a thousandth of the longest.
    const length = Math.max(1, value * scale)
    const start = MARGIN + LABELS
    return [
      `<text x="${start - 8}" y="${y + 11}" text-anchor="end">${escapeXml(label)}</text>`,
      `<rect class="${kind}" x="${start}" y="${y}" width="${length.toFixed(1)}" height="${THICKNESS}" rx="2"/>`,
      `<text x="${(start + length + 6).toFixed(1)}" y="${y + 11}">${escapeXml(text)}</text>`,
    ].join('\n')
  })
  const heading =
    `<text class="title" x="${MARGIN}" y="${top + 20}">${escapeXml(title)}` +
    `<tspan class="quiet" dx="10" font-weight="400">${hint}</tspan></text>`
  return [heading, ...lines].join('\n')
}

/** Also drops what XML cannot hold at all. */
export function escapeXml(text: string): string {
  const named: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  }
  return text
    .replace(/[&<>"']/g, (sign) => named[sign] ?? sign)
    .replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '')
}
