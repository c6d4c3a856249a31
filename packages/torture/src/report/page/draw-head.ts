import type { FaultData, ReportData } from '../data.js'
import { visible } from '../visible.js'
import { moment, roundStep, shortened } from './dom.js'
import type { Pen } from './draw-row.js'
import { MONO, SANS } from './palette.js'

const AXIS_HEIGHT = 24
const FAULT_HEIGHT = 15
const FAULT_LEVELS_MAX = 6
const NAME_MOST = 40

export interface PlacedFault extends FaultData {
  readonly level: number
}

/** The axis and the faults: what stays in place while the rows below are scrolled. */
export class Head {
  readonly faults: readonly PlacedFault[]
  readonly height: number
  readonly #violations: ReportData['violations']

  constructor(data: ReportData) {
    const ends: number[] = []
    this.faults = [...data.faults]
      .sort((a, b) => a.from - b.from)
      .map((fault) => {
        const free = ends.findIndex((end) => end <= fault.from)
        const level = Math.min(free < 0 ? ends.length : free, FAULT_LEVELS_MAX - 1)
        ends[level] = Math.max(ends[level] ?? 0, fault.to)
        return { ...fault, level }
      })
    this.height = AXIS_HEIGHT + (ends.length > 0 ? ends.length * FAULT_HEIGHT + 4 : 0) + 1
    this.#violations = data.violations
  }

  /** Bands behind the rows, and the lines of the axis. Gives how many bands are in view. */
  drawBehind({ context, palette, scale }: Pen, height: number): number {
    const step = roundStep(scale.to - scale.from, (scale.right - scale.left) / 110)
    context.fillStyle = palette.grid
    for (let t = Math.ceil(scale.from / step) * step; t <= scale.to; t += step) {
      context.fillRect(Math.round(scale.x(t)), this.height, 1, height)
    }
    context.save()
    context.beginPath()
    context.rect(scale.left, 0, scale.right - scale.left, height)
    context.clip()
    context.fillStyle = palette.fault
    context.globalAlpha = 0.1
    let bands = 0
    for (const fault of this.faults) {
      if (fault.to < scale.from || fault.from > scale.to) continue
      bands += 1
      const x = scale.clampedX(fault.from)
      context.fillRect(x, this.height, Math.max(1, scale.clampedX(fault.to) - x), height)
    }
    context.restore()
    return bands
  }

  /** Over the rows, which are scrolled below it. */
  draw(pen: Pen, chosen: number): void {
    const { context, palette, scale } = pen
    context.fillStyle = palette.bg
    context.fillRect(0, 0, scale.right, this.height)
    context.fillStyle = palette.line
    context.fillRect(0, this.height - 1, scale.right, 1)
    this.#drawAxis(pen)
    context.textBaseline = 'middle'
    context.textAlign = 'left'
    context.font = SANS
    context.fillStyle = palette.muted
    if (this.faults.length > 0) context.fillText('faults', 22, AXIS_HEIGHT + FAULT_HEIGHT / 2)
    context.save()
    context.beginPath()
    context.rect(scale.left, 0, scale.right - scale.left, this.height)
    context.clip()
    for (const fault of this.faults) this.#drawFault(pen, fault)
    this.#drawViolations(pen, chosen)
    context.restore()
  }

  /** The fault at a place in the head. */
  faultAt(t: number, y: number, slack: number): PlacedFault | undefined {
    const level = Math.floor((y - AXIS_HEIGHT) / FAULT_HEIGHT)
    return this.faults.find(
      (fault) => fault.level === level && t >= fault.from - slack && t <= fault.to + slack,
    )
  }

  #drawAxis({ context, palette, scale }: Pen): void {
    const step = roundStep(scale.to - scale.from, (scale.right - scale.left) / 110)
    context.font = MONO
    context.textBaseline = 'middle'
    context.textAlign = 'center'
    for (let t = Math.ceil(scale.from / step) * step; t <= scale.to; t += step) {
      const x = Math.round(scale.x(t))
      context.fillStyle = palette.line
      context.fillRect(x, AXIS_HEIGHT - 6, 1, 6)
      context.fillStyle = palette.muted
      if (x > scale.left + 24 && x < scale.right - 24) context.fillText(moment(t, step), x, 10)
    }
  }

  #drawFault({ context, palette, scale }: Pen, fault: PlacedFault): void {
    if (fault.to < scale.from || fault.from > scale.to) return
    const x = scale.clampedX(fault.from)
    const width = Math.max(2, scale.clampedX(fault.to) - x)
    const y = AXIS_HEIGHT + fault.level * FAULT_HEIGHT
    context.fillStyle = palette.fault
    context.globalAlpha = 0.28
    context.fillRect(x, y, width, FAULT_HEIGHT - 2)
    context.globalAlpha = 1
    context.fillRect(x, y, 2, FAULT_HEIGHT - 2)
    const room = Math.floor((width - 8) / 6.2)
    context.fillStyle = palette.text
    context.font = SANS
    context.textAlign = 'left'
    const whole = visible(`${fault.name} ${fault.target}`.trim())
    const text = whole.length <= room ? whole : shortened(fault.name, NAME_MOST)
    if (text.length > room) return
    context.fillText(text, Math.max(x, scale.left) + 6, y + FAULT_HEIGHT / 2 - 0.5)
  }

  #drawViolations({ context, palette, scale }: Pen, chosen: number): void {
    this.#violations.forEach((violation, index) => {
      if (violation.at < scale.from || violation.at > scale.to) return
      const x = scale.x(violation.at)
      context.fillStyle = violation.admitted === null ? palette.bad : palette.admitted
      context.beginPath()
      context.moveTo(x - 4, AXIS_HEIGHT - 8)
      context.lineTo(x + 4, AXIS_HEIGHT - 8)
      context.lineTo(x, AXIS_HEIGHT)
      context.closePath()
      context.fill()
      if (index === chosen) context.fillRect(x - 0.5, AXIS_HEIGHT, 1, this.height)
    })
  }
}
