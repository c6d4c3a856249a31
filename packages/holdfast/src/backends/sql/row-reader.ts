/** Takes columns out of one row and checks each: another program may have written it. */
export class RowReader {
  readonly #row: object
  readonly #fail: (what: string) => Error

  constructor(row: unknown, fail: (what: string) => Error) {
    if (typeof row !== 'object' || row === null) throw fail('it is missing')
    this.#row = row
    this.#fail = fail
  }

  text(column: string): string {
    const value = this.#get(column)
    return typeof value === 'string' ? value : this.#refuse(column)
  }

  textOrNull(column: string): string | null {
    return this.#get(column) === null ? null : this.text(column)
  }

  number(column: string): number {
    const value = this.#get(column)
    // Drivers give 64-bit numbers as text, as bigint or as a number, each by its own rule.
    const number = typeof value === 'string' || typeof value === 'bigint' ? Number(value) : value
    return typeof number === 'number' && Number.isFinite(number) ? number : this.#refuse(column)
  }

  integer(column: string, min: number, max: number): number {
    const value = this.number(column)
    return Number.isSafeInteger(value) && value >= min && value <= max ? value : this.#refuse(column)
  }

  oneOf<T extends string>(column: string, allowed: ReadonlySet<unknown>): T {
    const value = this.#get(column)
    return allowed.has(value) ? (value as T) : this.#refuse(column)
  }

  flag(column: string): boolean {
    const value = this.#get(column)
    return value === true || value === 1 || value === 1n || value === '1'
  }

  isNull(column: string): boolean {
    return this.#get(column) === null
  }

  #get(column: string): unknown {
    return Reflect.get(this.#row, column)
  }

  #refuse(column: string): never {
    throw this.#fail(`\`${column}\` makes no sense`)
  }
}
