import { displayWidth, padEnd, padStart, truncate } from './width.js'

export interface Column {
  readonly heading: string
  /** Numbers and lengths of time are easier to compare when they end in one line. Default left. */
  readonly align?: 'left' | 'right'
  /** Whether the column gives way when the terminal is too narrow. */
  readonly shrinks?: boolean
}

const GAP = '  '

/** A shrunken column keeps enough to recognise what it shows. */
const SHRUNKEN_MIN = 10

/**
 * Lays cells out in columns. With `maxWidth` the widest columns that may shrink are cut until the lines fit;
 * without it nothing is cut, because a program that reads the output wants all of it.
 */
export function layOutTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  maxWidth?: number,
): string[] {
  const lines = [columns.map((column) => column.heading), ...rows]
  const widths = columns.map((_, index) =>
    Math.max(...lines.map((cells) => displayWidth(cells[index] ?? ''))),
  )
  if (maxWidth !== undefined) shrinkToFit(columns, widths, maxWidth)
  return lines.map((cells) =>
    columns
      .map((column, index) => {
        const width = widths[index] ?? 0
        const cell = truncate(cells[index] ?? '', width)
        return column.align === 'right' ? padStart(cell, width) : padEnd(cell, width)
      })
      .join(GAP)
      .trimEnd(),
  )
}

function shrinkToFit(columns: readonly Column[], widths: number[], maxWidth: number): void {
  let excess = widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1) - maxWidth
  while (excess > 0) {
    const widest = columns.reduce<number | null>((best, column, index) => {
      const width = widths[index] ?? 0
      if (column.shrinks !== true || width <= SHRUNKEN_MIN) return best
      return best === null || width > (widths[best] ?? 0) ? index : best
    }, null)
    if (widest === null) return
    widths[widest] = (widths[widest] ?? 0) - 1
    excess -= 1
  }
}
