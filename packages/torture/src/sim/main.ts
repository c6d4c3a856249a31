import { runWorlds } from './run.js'
import { World } from './world.js'

const t0 = Date.now()
if (process.argv[3] === 'trace') {
  const lines: string[] = []
  const r = await new World(Number(process.argv[2]), (l) => lines.push(l)).run(2500)
  console.log(lines.slice(-Number(process.argv[4] ?? 100)).join('\n'))
  console.log(r)
} else {
  const r = await runWorlds(Number(process.argv[2] ?? 1), 1, Number(process.argv[3] ?? 200_000))
  console.log(r, (Date.now() - t0) / 1000, 's', Math.round((r.steps / (Date.now() - t0)) * 1000), 'steps/s')
}
