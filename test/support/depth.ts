/** How much a test does: `npm test` runs a size that shows the fault in question, `npm run test:deep` the large one. */

/** Whether the run is a deep one. */
export const isDeep = process.env['HOLDFAST_TEST_DEPTH'] === 'deep'

/** The size for this run. A variable of the environment, where a test has one, wins over both. */
export function atDepth<T>(normal: T, deep: T): T {
  return isDeep ? deep : normal
}

/** A number from the environment, or the size for this run. */
export function sizeOf(variable: string, normal: number, deep: number): number {
  const given = process.env[variable]
  return given === undefined || given === '' ? atDepth(normal, deep) : Number(given)
}
