import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { browserFor, chromiumPath } from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'

async function folderWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-browsers-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(folder, name), text)
    await chmod(join(folder, name), 0o755)
  }
  return folder
}

describe('the browser', () => {
  it('is found by any of its names', async () => {
    const folder = await folderWith({ 'google-chrome': '#!/bin/sh\n' })
    expect(chromiumPath({ PATH: folder })).toBe(join(folder, 'google-chrome'))
    expect(browserFor({ PATH: folder })).toEqual({ kind: 'ready', path: join(folder, 'google-chrome') })
  })

  it('is the one that was chosen, or none', async () => {
    const folder = await folderWith({ chromium: '#!/bin/sh\n', mine: '#!/bin/sh\n' })
    const chosen = join(folder, 'mine')
    expect(chromiumPath({ PATH: folder, HOLDFAST_CHROMIUM: chosen })).toBe(chosen)
    expect(chromiumPath({ PATH: folder, HOLDFAST_CHROMIUM: `${chosen}-not` })).toBeNull()
  })

  it('is not a script that only says where to get one', async () => {
    const stub = '#!/bin/sh\nif ! [ -x /snap/bin/chromium ]; then echo install it >&2; exit 1; fi\n'
    const folder = await folderWith({ 'chromium-browser': stub })
    expect(chromiumPath({ PATH: folder })).toBeNull()
  })

  it('is told as not run where it is missing, and is an error where everything is required', () => {
    const outcome = browserFor({ PATH: '' })
    expect(outcome).toMatchObject({ kind: 'not run', name: 'chromium' })
    expect(() => browserFor({ PATH: '', HOLDFAST_REQUIRE_STORES: 'sqlite, all' })).toThrow('is required')
    expect(browserFor({ PATH: '', HOLDFAST_REQUIRE_STORES: 'sqlite' }).kind).toBe('not run')
  })
})
