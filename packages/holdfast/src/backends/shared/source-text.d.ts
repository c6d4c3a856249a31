/** Scripts are files of their own; the build and the test runner turn them into text. See `tools/source-text.mjs`. */
declare module '*.lua' {
  export const source: string
}

declare module '*.sql' {
  export const source: string
}
