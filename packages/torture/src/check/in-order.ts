/** The same list if it is in order already, as most of them are; a sorted copy if not. */
export function inOrder<T>(items: readonly T[], compare: (a: T, b: T) => number): readonly T[] {
  for (let index = 1; index < items.length; index++) {
    const before = items[index - 1]
    const item = items[index]
    if (before !== undefined && item !== undefined && compare(before, item) > 0)
      return [...items].sort(compare)
  }
  return items
}
