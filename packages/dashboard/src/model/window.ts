/** Which rows of a long list must exist, so that what can be seen is there and little else. */
export interface Window {
  readonly first: number
  /** One after the last. */
  readonly end: number
}

/** Rows that are made beyond the edges, so that scrolling does not show gaps. */
const BEYOND = 6

export function windowOf(count: number, rowHeight: number, scrolled: number, height: number): Window {
  const first = Math.max(0, Math.floor(scrolled / rowHeight) - BEYOND)
  const end = Math.min(count, Math.ceil((scrolled + height) / rowHeight) + BEYOND)
  return { first: Math.min(first, Math.max(0, end)), end: Math.max(0, end) }
}

/** How far to scroll so that a row can be seen, and no further than needed. */
export function scrollTo(index: number, rowHeight: number, scrolled: number, height: number): number {
  const top = index * rowHeight
  if (top < scrolled) return top
  return top + rowHeight > scrolled + height ? top + rowHeight - height : scrolled
}
