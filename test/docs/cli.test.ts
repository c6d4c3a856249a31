/** The page about the command, against what the command really takes. */

import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { Interruption } from '../../packages/cli/src/interruption.js'
import { createProgram } from '../../packages/cli/src/program.js'

const page = await readFile(new URL('../../docs/cli.md', import.meta.url), 'utf8')
const interruption = new Interruption()
// Signals stay those of whoever runs the tests.
interruption.handOver()
const { commands } = createProgram({ interruption, childCommand: null, exitCode: 0 })

/** What the page says between the heading of a command and the next one. */
function sectionOf(name: string): string {
  const [, section = ''] = page.split(`\n## holdfast ${name}\n`)
  return section.split('\n## ')[0] ?? ''
}

const named = commands.map((command) => ({ name: command.name(), command }))

describe('docs/cli.md', () => {
  it.each(named)('has $name in its list and a section about it', ({ name }) => {
    const [list = ''] = page.split('\n## ')
    expect(list).toMatch(new RegExp(`^ {4}holdfast ${name}\\b.* {2,}\\S`, 'm'))
    expect(sectionOf(name)).toMatch(new RegExp(`^ {4}holdfast ${name}\\b`, 'm'))
  })

  it.each(named)('tells of every option of $name', ({ name, command }) => {
    const section = sectionOf(name)
    for (const part of [command, ...command.commands]) {
      if (part !== command) expect(section).toContain(`holdfast ${name} ${part.name()}`)
      for (const { long } of part.options) {
        expect(section, `${part.name()} ${long}`).toMatch(new RegExp(`(?<![\\w-])${long}(?![\\w-])`))
      }
    }
  })
})
