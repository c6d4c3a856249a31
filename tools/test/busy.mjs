// @ts-check
// Keeps one core busy until its parent ends or ends it. `stress.mjs` starts it.

const parent = Number(process.argv[2])
const sliceMs = 100

while (process.ppid === parent) {
  const end = performance.now() + sliceMs
  while (performance.now() < end);
}
