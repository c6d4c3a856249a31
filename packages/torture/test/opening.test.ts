import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { atDepth } from '../../../test/support/depth.js'
import type { Opened } from '../src/workers/opener.js'
import { Children } from './children.js'

const ROUNDS = atDepth(4, 15)
const PROCESSES = 8
const TIMES = 20

let folder: string
let children: Children

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-opening-'))
  children = new Children()
})

afterEach(async () => {
  await children.stopAll()
  await rm(folder, { recursive: true, force: true })
})

describe('a file that does not exist yet', () => {
  it('is made by whoever comes first, and is of use to all who open it at that moment', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const url = `sqlite:${join(folder, `locks-${round}.db`)}`
      const workers = Array.from({ length: PROCESSES }, () => children.start('opener', [url, TIMES]))
      await Promise.all(workers.map((worker) => worker.hear('ready')))
      for (const worker of workers) worker.say('go')
      const opened = await Promise.all(workers.map((worker) => worker.hear<Opened>('opened')))
      const outcomes = opened.flatMap((message) => message.outcomes)
      expect(outcomes.filter((outcome) => outcome !== 'released')).toEqual([])
      expect(outcomes.length).toBe(PROCESSES * TIMES)
    }
    expect(children.errors).toBe('')
  })
})
