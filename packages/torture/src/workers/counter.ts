/**
 * Adds one to the number in a file, over and over: reads it, writes it, with nothing but the lock between this
 * process and the others. Without the lock it does the same, to show that the others would be noticed.
 *
 *     counter.js URL FILE LOG TIMES locked|unlocked
 */

import { appendFile, readFile, writeFile } from 'node:fs/promises'
import { connect } from 'holdfast'
import { argument, tell, told } from './shared/parent.js'

const [url, file, log] = [argument(0), argument(1), argument(2)]
const times = Number(argument(3))
const locked = argument(4) === 'locked'

async function addOne(): Promise<void> {
  const value = Number(await readFile(file, 'utf8'))
  await writeFile(file, String(value + 1))
}

const locks = await connect(url)
const mutex = locks.mutex('counter')
await tell({ kind: 'ready' })
await told('go')
for (let done = 0; done < times; done += 1) {
  if (locked) {
    await mutex.run(async (hold) => {
      await appendFile(log, `${hold.fence}\n`)
      await addOne()
    })
  } else {
    await addOne()
  }
}
await locks.close()
await tell({ kind: 'done' })
process.disconnect()
