/** The monotonic clock of the machine, which all its processes share. */

/** `performance.now()` is the same clock counted from the start of the process, and cheaper to read. */
const processStart = Number(process.hrtime.bigint()) / 1e6 - performance.now()

/** Milliseconds that can be compared between processes. */
export function machineMs(): number {
  return processStart + performance.now()
}
