/** The scripts of the page are bundles of their own; see `tools/source-text.mjs`. */
declare module '*?minified' {
  export const source: string
}
