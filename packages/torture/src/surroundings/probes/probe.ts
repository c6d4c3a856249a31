/** What a server keeps, as numbers: they must be the same after N acquisitions and after 2N. */

export type Counts = Readonly<Record<string, number>>

/** Looks at the server without the library. */
export type ServerProbe = () => Promise<Counts>

export function portsOf(url: string): readonly number[] {
  return [...url.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, port]) => Number(port))
}

export function portOf(url: string): number {
  const [port] = portsOf(url)
  if (port === undefined) throw new Error(`There is no port in ${url}.`)
  return port
}

/** The database or the path of a URL, without its query. */
export function pathOf(url: string): string {
  return /^[a-z+]+:\/\/[^/]*\/([^?]*)/.exec(url)?.[1] ?? ''
}

/** Adds up what several servers have. */
export function sumOf(all: readonly Counts[]): Counts {
  const sum: Record<string, number> = {}
  for (const counts of all) {
    for (const [name, value] of Object.entries(counts)) sum[name] = (sum[name] ?? 0) + value
  }
  return sum
}
