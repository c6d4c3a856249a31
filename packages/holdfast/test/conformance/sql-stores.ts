import type { SkipRequest } from '../../src/testing.js'
import { describeStore, type Opener, type Variant } from './stores.js'

export type SqlStoreName = 'postgres' | 'mariadb' | 'mysql'

export interface SqlVariant {
  readonly recipe: string
  /** Further options of the URL. */
  readonly options?: string
  /** Themes that another variant or store runs. */
  readonly skip?: readonly SkipRequest[]
}

/** Each transaction needs a connection of its own, and one case has very many of them. */
const MAX: Readonly<Record<string, number>> = { 'for-update': 220, 'advisory-xact': 220 }

function variantOf({ recipe, options = '', skip = [] }: SqlVariant): Variant {
  const hasTables = recipe === 'rows' || recipe === 'for-update'
  return {
    recipe: `${recipe}${options}`,
    urlFor: (url, tag) => {
      const own = `${url}?recipe=${recipe}&max=${MAX[recipe] ?? 4}${options}`
      return hasTables ? `${own}&tablePrefix=${tag}_` : own
    },
    sharesPart: true,
    skip,
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
