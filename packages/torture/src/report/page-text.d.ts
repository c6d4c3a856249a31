/** The script and the style of the page are files of their own; see `tools/source-text.mjs`. */
declare module '*?script' {
  export const source: string
}

declare module '*?text' {
  export const source: string
}
