import type { ReportData } from '../data.js'
import { el } from './dom.js'
import { Head } from './draw-head.js'
import { type Drawn, drawRow, type Pen } from './draw-row.js'
import { type Palette, readPalette, SANS } from './palette.js'
import { type Row, Rows } from './rows.js'
import { GUTTER, Scale } from './scale.js'
import { type Telling, Tooltip, tellAt, tellFault, tellHold } from './tooltip.js'
import type { View } from './view.js'

/** Of the height of the window, so that a heading and the tools still fit above it. */
const HEIGHT_SHARE = 0.74
const HEIGHT_LEAST = 420

/** The canvas with the rows. It draws what is in view, and only when something has changed. */
export class Timeline {
  readonly element = el('div', { class: 'timeline' })
  readonly rows: Rows
  readonly #data: ReportData
  readonly #view: View
  readonly #head: Head
  readonly #canvas: HTMLCanvasElement
  readonly #spacer = el('div')
  readonly #live: HTMLElement
  readonly #tooltip: Tooltip
  #palette: Palette = readPalette()
  #width = 0
  #asked = false
  #chosen = -1
  /** The pixels that are marked by a drag, to be zoomed to. */
  #selection: { from: number; to: number } | null = null
  #cursor: { row: Row; index: number } | null = null

  constructor(data: ReportData, view: View, live: HTMLElement, root: HTMLElement) {
    this.#data = data
    this.#view = view
    this.#live = live
    this.#head = new Head(data)
    this.rows = new Rows(data)
    this.#tooltip = new Tooltip(root)
    this.#canvas = el('canvas', {
      tabindex: '0',
      role: 'application',
      'aria-roledescription': 'timeline',
      'aria-label':
        `Timeline of ${data.resources.length} resources. Left and right pan, plus and minus zoom, 0 shows all, ` +
        'up and down choose a row, N and P go to its next and previous hold, Enter opens or closes a resource.',
    })
    this.element.append(this.#canvas, this.#spacer)
    view.onChange(() => this.refresh())
    this.element.addEventListener('scroll', () => this.refresh())
    new ResizeObserver(() => this.refresh()).observe(this.element)
    const dark = matchMedia('(prefers-color-scheme: dark)')
    dark.addEventListener('change', () => this.#repaint())
    for (const moment of ['beforeprint', 'afterprint']) addEventListener(moment, () => this.#repaint())
    this.#listen()
  }

  /** Draws soon; any number of calls before that draw once. */
  refresh(): void {
    if (this.#asked) return
    this.#asked = true
    requestAnimationFrame(() => {
      this.#asked = false
      this.#draw()
    })
  }

  choose(violation: number): void {
    this.#chosen = violation
    const found = this.#data.violations[violation]
    if (found === undefined) return
    if (found.resource >= 0) this.rows.open(found.resource)
    const row = this.rows.rowOf(found.resource, found.involved[0]?.p ?? '')
    if (row !== undefined) this.#scrollTo(row)
    this.refresh()
  }

  arrange(): void {
    this.#cursor = null
    this.rows.arrange()
    this.refresh()
  }

  #repaint(): void {
    this.#palette = readPalette()
    this.#draw()
  }

  #draw(): void {
    const width = this.element.clientWidth
    if (width === 0) return
    const most = Math.max(HEIGHT_LEAST, Math.round(window.innerHeight * HEIGHT_SHARE))
    const height = Math.min(most, this.#head.height + Math.max(40, this.rows.height))
    const ratio = window.devicePixelRatio || 1
    if (width !== this.#width || this.#canvas.height !== Math.round(height * ratio)) {
      this.#width = width
      this.#canvas.width = Math.round(width * ratio)
      this.#canvas.height = Math.round(height * ratio)
      this.#canvas.style.height = `${height}px`
      this.element.style.height = `${height + 2}px`
    }
    this.#spacer.style.height = `${Math.max(0, this.rows.height + this.#head.height - height)}px`
    const context = this.#canvas.getContext('2d')
    if (context === null) return
    context.setTransform(ratio, 0, 0, ratio, 0, 0)
    context.fillStyle = this.#palette.bg
    context.fillRect(0, 0, width, height)
    const pen: Pen = { context, palette: this.#palette, scale: new Scale(this.#view, width) }
    const drawn: Drawn = { holds: 0, waits: 0, calls: 0, marks: 0, bads: 0 }
    const bands = this.#head.drawBehind(pen, height)
    const scroll = this.element.scrollTop
    for (const row of this.rows.all) {
      const y = this.#head.height + row.top - scroll
      if (y + row.height < this.#head.height || y > height) continue
      drawRow(pen, row, y, this.#chosen, drawn)
      if (this.#cursor?.row.top === row.top) this.#drawCursor(pen, row, y)
    }
    if (this.rows.all.length === 0) this.#drawNothing(pen)
    this.#drawMoments(pen, height)
    this.#head.draw(pen, this.#chosen)
    this.#drawSelection(pen, height)
    this.#tell(drawn, bands)
  }

  /** What is drawn, in numbers, for those who cannot look: tests. */
  #tell(drawn: Drawn, bands: number): void {
    const numbers = { ...drawn, bands, rows: this.rows.all.length }
    for (const [name, value] of Object.entries(numbers)) this.#canvas.dataset[name] = String(value)
    this.#canvas.dataset['from'] = String(this.#view.from)
    this.#canvas.dataset['to'] = String(this.#view.to)
    this.#canvas.dataset['chosen'] = String(this.#chosen)
  }

  #drawCursor({ context, palette, scale }: Pen, row: Row, y: number): void {
    context.strokeStyle = palette.exclusive
    context.lineWidth = 1
    context.strokeRect(0.5, y + 0.5, scale.right - 1, row.height - 2)
    const hold = row.track().holds.all[this.#cursor?.index ?? -1]
    if (hold === undefined) return
    const x = scale.clampedX(hold.from)
    context.strokeStyle = palette.text
    context.lineWidth = 1.5
    context.strokeRect(x - 1, y + 1, Math.max(3, scale.clampedX(hold.to) - x) + 2, row.height - 3)
  }

  #drawNothing({ context, palette, scale }: Pen): void {
    context.fillStyle = palette.muted
    context.font = SANS
    context.textBaseline = 'middle'
    context.textAlign = 'left'
    const text = this.#data.lanes.length === 0 ? 'Nobody asked for anything.' : 'Nothing matches the filters.'
    context.fillText(text, scale.left + 8, this.#head.height + 20)
  }

  #drawMoments({ context, palette, scale }: Pen, height: number): void {
    const violation = this.#data.violations[this.#chosen]
    if (violation === undefined || violation.at < scale.from || violation.at > scale.to) return
    context.fillStyle = violation.admitted === null ? palette.bad : palette.admitted
    context.globalAlpha = 0.7
    context.fillRect(scale.x(violation.at) - 0.5, 0, 1, height)
    context.globalAlpha = 1
  }

  #drawSelection({ context, palette }: Pen, height: number): void {
    if (this.#selection === null) return
    const { from, to } = this.#selection
    context.fillStyle = palette.exclusive
    context.globalAlpha = 0.18
    context.fillRect(Math.min(from, to), 0, Math.abs(to - from), height)
    context.globalAlpha = 1
  }

  #listen(): void {
    const canvas = this.#canvas
    canvas.addEventListener('pointerdown', (event) => this.#press(event))
    canvas.addEventListener('pointermove', (event) => this.#hover(event))
    canvas.addEventListener('pointerleave', () => this.#tooltip.hide())
    canvas.addEventListener('blur', () => this.#tooltip.hide())
    canvas.addEventListener('dblclick', () => this.#view.reset())
    canvas.addEventListener('wheel', (event) => this.#wheel(event), { passive: false })
    canvas.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return
      if (this.#key(event.key)) event.preventDefault()
    })
  }

  #wheel(event: WheelEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      event.preventDefault()
      this.#view.zoom(1.0015 ** event.deltaY, this.#scale().t(event.offsetX))
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault()
      this.#view.pan((event.deltaX || event.deltaY) / Math.max(1, this.#width - GUTTER))
    }
  }

  /** A drag over the rows selects what to zoom to; one along the axis, or with Shift, moves. */
  #press(event: PointerEvent): void {
    if (event.button !== 0) return
    const row = this.#rowAt(event)
    if (event.offsetX < GUTTER) {
      if (row?.kind === 'resource') this.#toggle(row)
      return
    }
    const start = event.offsetX
    const moves = event.shiftKey || event.offsetY < this.#head.height
    const { from, to } = this.#view
    const scale = this.#scale()
    this.#canvas.setPointerCapture(event.pointerId)
    const drag = (next: PointerEvent): void => {
      if (moves) {
        const by = (start - next.offsetX) * scale.pixel
        this.#view.show(from + by, to + by)
        return
      }
      this.#selection = { from: start, to: Math.max(GUTTER, next.offsetX) }
      this.refresh()
    }
    const end = (): void => {
      this.#canvas.removeEventListener('pointermove', drag)
      const selected = this.#selection
      this.#selection = null
      this.refresh()
      if (selected === null || Math.abs(selected.to - selected.from) < 4) return
      const [a, b] = [scale.t(selected.from), scale.t(selected.to)]
      this.#view.show(Math.min(a, b), Math.max(a, b))
    }
    this.#canvas.addEventListener('pointermove', drag)
    this.#canvas.addEventListener('pointerup', end, { once: true })
    this.#canvas.addEventListener('pointercancel', end, { once: true })
  }

  #hover(event: PointerEvent): void {
    const telling =
      event.buttons === 0 && event.offsetX >= GUTTER ? this.#tellingAt(event) : this.#nameAt(event)
    if (telling === null) this.#tooltip.hide()
    else this.#tooltip.show(telling, event.clientX, event.clientY)
  }

  #tellingAt(event: PointerEvent): Telling | null {
    const scale = this.#scale()
    const t = scale.t(event.offsetX)
    const slack = scale.pixel * 2
    if (event.offsetY < this.#head.height) {
      const fault = this.#head.faultAt(t, event.offsetY, slack)
      return fault === undefined ? null : tellFault(fault)
    }
    const row = this.#rowAt(event)
    return row === undefined ? null : tellAt(this.#data, row, t, slack)
  }

  /** Names are cut to fit, so that the whole one is shown on request. */
  #nameAt(event: PointerEvent): Telling | null {
    const row = event.offsetX < GUTTER && event.offsetY >= this.#head.height ? this.#rowAt(event) : undefined
    return row === undefined ? null : [row.label, ...(row.aside === '' ? [] : [row.aside])]
  }

  #key(key: string): boolean {
    const actions: Readonly<Record<string, () => void>> = {
      ArrowLeft: () => this.#view.pan(-0.15),
      ArrowRight: () => this.#view.pan(0.15),
      '+': () => this.#view.zoom(1 / 1.5),
      '=': () => this.#view.zoom(1 / 1.5),
      '-': () => this.#view.zoom(1.5),
      '0': () => this.#view.reset(),
      Home: () => this.#view.pan(-1e9),
      End: () => this.#view.pan(1e9),
      ArrowDown: () => this.#moveRow(1),
      ArrowUp: () => this.#moveRow(-1),
      n: () => this.#moveHold(1),
      p: () => this.#moveHold(-1),
      Enter: () => {
        if (this.#cursor !== null) this.#toggle(this.#cursor.row)
      },
      Escape: () => this.#tooltip.hide(),
    }
    const action = Object.hasOwn(actions, key) ? actions[key] : undefined
    action?.()
    return action !== undefined
  }

  #toggle(row: Row): void {
    this.rows.toggle(row.resource)
    const again = this.rows.all.find((other) => other.kind === 'resource' && other.resource === row.resource)
    this.#cursor = this.#cursor === null || again === undefined ? null : { row: again, index: -1 }
    this.#live.textContent = again?.open === true ? 'Opened' : 'Closed'
    this.refresh()
  }

  #moveRow(by: number): void {
    const rows = this.rows.all
    const now = rows.findIndex((row) => row.top === this.#cursor?.row.top)
    const row = rows[Math.min(rows.length - 1, Math.max(0, now + by))]
    if (row === undefined) return
    this.#cursor = { row, index: -1 }
    this.#scrollTo(row)
    const holds = row.track().holds.all.length
    const state = row.kind === 'callers' ? '' : row.open ? ', open' : ', closed'
    this.#announce([`${row.kind === 'resource' ? 'Resource ' : ''}${row.label}`, `${holds} holds${state}`])
    this.refresh()
  }

  /** From the hold that was chosen before, or else from the first one that is in view. */
  #moveHold(by: number): void {
    if (this.#cursor === null) this.#moveRow(1)
    const { row, index } = this.#cursor ?? {}
    if (row === undefined || index === undefined) return
    const holds = row.track().holds.all
    const first = holds.findIndex((hold) => hold.to >= this.#view.from)
    const next = index < 0 ? Math.max(0, first) : Math.min(holds.length - 1, Math.max(0, index + by))
    const hold = holds[next]
    if (hold === undefined) return
    this.#cursor = { row, index: next }
    const length = this.#view.length
    if (hold.from < this.#view.from || hold.to > this.#view.to) {
      this.#view.show(hold.from - length * 0.3, hold.from + length * 0.7)
    }
    this.#announce(tellHold(hold, this.#data.resources[row.resource]?.name ?? ''))
    this.refresh()
  }

  #announce(telling: Telling): void {
    this.#live.textContent = telling.join(', ')
    const { left, top } = this.#canvas.getBoundingClientRect()
    const row = this.#cursor?.row
    const y = top + this.#head.height + (row?.top ?? 0) + (row?.height ?? 0) - this.element.scrollTop
    this.#tooltip.show(telling, left + GUTTER, y)
  }

  #scrollTo(row: Row): void {
    const room = this.element.clientHeight - this.#head.height
    const { scrollTop } = this.element
    if (row.top >= scrollTop && row.top + row.height <= scrollTop + room) return
    this.#spacer.style.height = `${Math.max(0, this.rows.height + this.#head.height - this.element.clientHeight)}px`
    this.element.scrollTop = Math.max(0, row.top - room / 3)
  }

  #rowAt(event: PointerEvent): Row | undefined {
    if (event.offsetY < this.#head.height) return undefined
    return this.rows.at(event.offsetY - this.#head.height + this.element.scrollTop)
  }

  #scale(): Scale {
    return new Scale(this.#view, this.#width)
  }
}
