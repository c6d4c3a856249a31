import { describeStore, type Opener, type Variant } from './stores.js'

export type SqlStoreName = 'postgres' | 'mariadb' | 'mysql'

export interface SqlVariant {
  readonly recipe: string
  /** Further options of the URL. */
  readonly options?: string
}

/** Each transaction needs a connection of its own, and one case has very many of them. */
const MAX: Readonly<Record<string, number>> = { 'for-update': 220, 'advisory-xact': 220 }

/** Tables of its own for each case or, for recipes without any, only names that no other client of the case has. */
function variantOf({ recipe, options = '' }: SqlVariant): Variant {
  const hasTables = recipe === 'rows' || recipe === 'for-update'
  return {
    recipe: `${recipe}${options}`,
    urlFor: (url, tag) => {
      const own = `${url}?recipe=${recipe}&max=${MAX[recipe] ?? 4}${options}`
      return hasTables ? `${own}&tablePrefix=${tag}_` : own
    },
    migrates: true,
    sharesNames: !hasTables,
  }
}

/** Registers the suite for each recipe, one after the other, on one server. */
export async function describeSql(
  store: SqlStoreName,
  variants: readonly SqlVariant[],
  opener: Opener,
): Promise<void> {
  await describeStore(store, variants.map(variantOf), opener)
}
