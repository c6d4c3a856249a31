// @ts-check
// Independent callers that take crossing names, one after the other and never one inside the other.
import { argv, stdout } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'holdfast'

const [url = '', rounds = '', ...names] = argv.slice(2)
const locks = await connect(url, {
  deadlocks: 'detect',
  deadlockCheckMs: 20,
  outageMs: 60_000,
  requestMs: 30_000,
})
let taken = 0

/** @param {readonly string[]} order */
async function caller(order) {
  for (let round = 0; round < Number(rounds); round += 1) {
    for (const name of order) {
      await locks.mutex(name).run(() => sleep(30))
      taken += 1
    }
  }
}

await Promise.all([names, names.toReversed(), names, names.toReversed()].map(caller))
await locks.close()
stdout.write(`${taken}\n`)
