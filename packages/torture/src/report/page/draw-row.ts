import { shortened } from './dom.js'
import { MONO, type Palette, SANS } from './palette.js'
import { LEVEL_HEIGHT, type Row } from './rows.js'
import type { Scale } from './scale.js'
import type { Hold, Mark, Track } from './tracks.js'

export interface Pen {
  readonly context: CanvasRenderingContext2D
  readonly palette: Palette
  readonly scale: Scale
}

/** How many of each were in view, before those that share a pixel were drawn as one. */
export interface Drawn {
  holds: number
  waits: number
  calls: number
  marks: number
  bads: number
}

const BAR_HEIGHT = LEVEL_HEIGHT - 2
/** How wide a character of a name is, near enough to cut names by. */
const CHARACTER = 6.7

/** Draws one row with its top at `y`. */
export function drawRow(pen: Pen, row: Row, y: number, chosen: number, drawn: Drawn): void {
  const { context, palette, scale } = pen
  const track = row.track()
  const isResource = row.kind === 'resource'
  if (isResource) {
    context.fillStyle = palette.panel
    context.fillRect(0, y, scale.right, row.height)
  }
  context.fillStyle = isResource ? palette.line : palette.grid
  context.fillRect(0, y + row.height - 1, scale.right, 1)
  context.save()
  context.beginPath()
  context.rect(scale.left, y, scale.right - scale.left, row.height)
  context.clip()
  drawStalls(pen, track, y, row.height)
  drawBads(pen, track, y, row.height, chosen, isResource ? null : drawn)
  if (!isResource) drawWaits(pen, track, y, row.height, drawn)
  const barTop = isResource ? y + (row.height - BAR_HEIGHT - 1) / 2 : y + 3
  drawHolds(pen, track, barTop, isResource ? null : drawn)
  if (!isResource) {
    drawCalls(pen, track, y, row.height, drawn)
    for (const mark of track.marks) drawMark(pen, mark, y, row.height, drawn)
  }
  context.restore()
  drawLabel(pen, row, y)
}

function drawLabel({ context, palette, scale }: Pen, row: Row, y: number): void {
  context.textBaseline = 'middle'
  const middle = y + row.height / 2
  const isResource = row.kind === 'resource'
  context.fillStyle = palette.muted
  context.font = SANS
  const aside = shortened(row.aside, 16)
  context.textAlign = 'right'
  context.fillText(aside, scale.left - 8, middle)
  context.textAlign = 'left'
  if (isResource) context.fillText(row.open ? '▾' : '▸', 8, middle)
  const room = scale.left - 22 - 14 - context.measureText(aside).width
  context.fillStyle = isResource ? palette.text : palette.muted
  context.font = isResource ? `600 ${MONO}` : MONO
  context.fillText(shortened(row.label, Math.floor(room / CHARACTER)), 22, middle)
}

function drawStalls({ context, palette, scale }: Pen, track: Track, y: number, height: number): void {
  context.fillStyle = palette.stall
  context.globalAlpha = 0.35
  for (const stall of track.stalls) {
    if (stall.to < scale.from || stall.from > scale.to) continue
    const x = scale.clampedX(stall.from)
    context.fillRect(x, y, Math.max(1, scale.clampedX(stall.to) - x), height - 1)
  }
  context.globalAlpha = 1
}

function drawWaits(
  { context, palette, scale }: Pen,
  track: Track,
  y: number,
  height: number,
  drawn: Drawn,
): void {
  const base = y + height - 4
  let until = Number.NEGATIVE_INFINITY
  track.waits.visit(scale.from, scale.to, (wait) => {
    drawn.waits += 1
    const x = scale.clampedX(wait.from)
    const end = Math.max(x + 1, scale.clampedX(wait.to))
    if (end <= until) return
    context.fillStyle = wait.end === 'unknown' ? palette.admitted : palette.wait
    context.fillRect(x, base, end - x, 1.5)
    if (wait.end === 'timed out' || wait.end === 'unknown') context.fillRect(end - 1, base - 3, 1.5, 5)
    until = end
  })
}

/** Calls lie where waiting does: who writes does not wait. */
function drawCalls(pen: Pen, track: Track, y: number, height: number, drawn: Drawn): void {
  const { context, palette, scale } = pen
  const colours = { done: palette.text, refused: palette.lost, unknown: palette.admitted, open: palette.wait }
  track.calls.visit(scale.from, scale.to, (call) => {
    drawn.calls += 1
    const x = scale.clampedX(call.from)
    const width = Math.max(2, scale.clampedX(call.to) - x)
    context.fillStyle = colours[call.end]
    context.fillRect(x, y + height - 5, width, 3)
  })
}

type Colour = 'exclusive' | 'shared' | 'bad' | 'admitted'

function colourOf(hold: Hold): Colour {
  if (hold.bad !== 'no') return hold.bad === 'yes' ? 'bad' : 'admitted'
  return hold.shared ? 'shared' : 'exclusive'
}

/** Bars below a pixel and a half are not drawn one by one: a column is as dark as it is full. */
function drawHolds(pen: Pen, track: Track, y: number, drawn: Drawn | null): void {
  const { context, palette, scale } = pen
  const columns = Math.ceil(scale.right - scale.left) + 1
  const fill = new Map<Colour, Float32Array>()
  track.holds.visit(scale.from, scale.to, (hold) => {
    if (drawn !== null) drawn.holds += 1
    if (hold.to - hold.from >= scale.pixel * 1.5) {
      drawHold(pen, hold, y)
      return
    }
    const column = Math.floor(scale.clampedX(hold.from) - scale.left)
    if (column < 0 || column >= columns) return
    const colour = colourOf(hold)
    const shares = fill.get(colour) ?? new Float32Array(columns)
    fill.set(colour, shares)
    shares[column] = (shares[column] ?? 0) + Math.max(0.01, (hold.to - hold.from) / scale.pixel)
  })
  // What is bad comes last, so that nothing hides it.
  for (const colour of ['exclusive', 'shared', 'admitted', 'bad'] as const) {
    const least = colour === 'bad' || colour === 'admitted' ? 1 : 0.35
    context.fillStyle = palette[colour]
    fill.get(colour)?.forEach((share, column) => {
      if (share === 0) return
      context.globalAlpha = least + (1 - least) * Math.min(1, share)
      context.fillRect(scale.left + column, y, 1, BAR_HEIGHT)
    })
  }
  context.globalAlpha = 1
}

function drawHold({ context, palette, scale }: Pen, hold: Hold, top: number): void {
  const x = scale.clampedX(hold.from)
  const width = Math.max(1, scale.clampedX(hold.to) - x)
  const y = top + hold.level * LEVEL_HEIGHT
  context.fillStyle = palette[colourOf(hold)]
  context.globalAlpha = hold.doubtful ? 0.4 : hold.end === 'open' ? 0.7 : 1
  context.fillRect(x, y, width, BAR_HEIGHT)
  context.globalAlpha = 1
  if (width > 6) {
    context.fillStyle = palette.bg
    context.fillRect(x + width - 1, y, 1, BAR_HEIGHT)
  }
  const text = hold.weight === 1 ? hold.fence : `×${hold.weight} ${hold.fence}`
  const room = Math.floor((width - 8) / 5.5)
  if (text === '' || room < Math.min(3, text.length)) return
  context.fillStyle = palette.bg
  context.font = '9px ui-monospace, Menlo, "DejaVu Sans Mono", monospace'
  context.textBaseline = 'middle'
  context.textAlign = 'left'
  context.fillText(shortened(text, Math.max(3, room)), Math.max(x, scale.left) + 4, y + BAR_HEIGHT / 2 + 0.5)
}

function drawBads(
  { context, palette, scale }: Pen,
  track: Track,
  y: number,
  height: number,
  chosen: number,
  drawn: Drawn | null,
): void {
  for (const bad of track.bads) {
    if (bad.to < scale.from || bad.from > scale.to) continue
    if (drawn !== null) drawn.bads += 1
    const x = scale.clampedX(bad.from)
    const width = Math.max(2, scale.clampedX(bad.to) - x)
    context.fillStyle = bad.admitted ? palette.admitted : palette.bad
    context.globalAlpha = bad.violation === chosen ? 0.3 : 0.15
    context.fillRect(x, y, width, height - 1)
    context.globalAlpha = 1
    if (bad.violation !== chosen) continue
    context.strokeStyle = context.fillStyle
    context.lineWidth = 1.5
    context.strokeRect(x, y + 0.5, width, height - 2)
  }
}

function drawMark(
  { context, palette, scale }: Pen,
  mark: Mark,
  y: number,
  height: number,
  drawn: Drawn,
): void {
  if (mark.at < scale.from || mark.at > scale.to) return
  drawn.marks += 1
  const x = scale.x(mark.at)
  const middle = y + (height - 1) / 2
  context.beginPath()
  if (mark.kind === 'died') {
    context.strokeStyle = palette.text
    context.lineWidth = 1.5
    context.moveTo(x - 3, middle - 3)
    context.lineTo(x + 3, middle + 3)
    context.moveTo(x + 3, middle - 3)
    context.lineTo(x - 3, middle + 3)
    context.stroke()
    return
  }
  context.fillStyle = mark.kind === 'tripped' ? palette.bad : palette.lost
  context.moveTo(x - 4, y + 1)
  context.lineTo(x + 4, y + 1)
  context.lineTo(x, y + 8)
  context.closePath()
  context.fill()
  context.fillRect(x - 0.5, y + 1, 1, height - 3)
}
