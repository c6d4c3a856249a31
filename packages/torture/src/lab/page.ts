/** docs/lab.md, made from the cases, so that the page and what is run cannot drift apart. */

import type { LabCase } from './case.js'

const HEAD = `# The lab

Recipes and ideas that are known to be broken, each as a small honest implementation, with the fault that shows it. A
case is played on real servers, by processes that are really killed and stopped, and judged by the checkers of
[histories](checking.md). Then our recipe plays the same schedule on fresh servers, and must pass.

    holdfast lab list
    holdfast lab run setnx-then-expire
    holdfast lab run --all

The schedule of a case is written once and played by both, so that ours is put to the very test that the other one fails.
What only the broken one has, such as a moment between two commands, ours cannot be stopped in; it is then stopped at the
next moment there is.

This page is made from the cases in \`packages/torture/src/lab/cases\` by \`node packages/torture/dist/lab/write-page.js\`, and
a test compares the two. The library never loads any of it.
`

/** The whole page. */
export function labPage(cases: readonly LabCase[]): string {
  const rows = cases.map(
    ({ name, title, expects }) => `| [${name}](#${name}) | ${title} | ${'`'}${expects}${'`'} |`,
  )
  const table = ['| case | what is broken | what is found |', '| --- | --- | --- |', ...rows].join('\n')
  return `${[HEAD, table, ...sections(cases)].join('\n')}\n`
}

function sections(cases: readonly LabCase[]): string[] {
  const families = [...new Set(cases.map(({ family }) => family))]
  return families.flatMap((family) => [
    `\n## ${family}`,
    ...cases.filter((each) => each.family === family).map(sectionOf),
  ])
}

function sectionOf(labCase: LabCase): string {
  const { name, title, story, fault, expects, ours, stores, admits = {} } = labCase
  const admitted = Object.entries(admits).map(
    ([kind, reason]) => `**Seen with ours too**, and told: \`${kind}\`. ${reason}`,
  )
  const paragraphs = [
    `${title}. Needs ${stores.map((store) => `\`${store}\``).join(', ')}.`,
    story,
    `**What shows it.** ${fault} Found: \`${expects}\`.`,
    `**Ours.** ${ours}`,
    ...admitted,
  ]
  return [`\n### ${name}`, ...paragraphs.map(wrapped)].join('\n\n')
}

/** Lines as long as on the other pages. */
const LINE_LENGTH = 120

function wrapped(text: string): string {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const line = lines.at(-1)
    if (line !== undefined && line.length + 1 + word.length <= LINE_LENGTH)
      lines[lines.length - 1] = `${line} ${word}`
    else lines.push(word)
  }
  return lines.join('\n')
}
