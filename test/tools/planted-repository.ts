import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** Writes a small repository into a temporary folder, lets the callback look at it, and removes it. */
export function withRepository<Result>(
  files: Readonly<Record<string, string>>,
  look: (root: string) => Result,
): Result {
  const root = mkdtempSync(join(tmpdir(), 'holdfast-planted-'))
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true })
      writeFileSync(join(root, path), text)
    }
    return look(root)
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}
