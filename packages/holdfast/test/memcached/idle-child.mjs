// @ts-check
// Locks over the URL and gives back, and closes nothing. It then has nothing more to do, and ends only if an idle
// connection does not keep it.
import { argv, stdout } from 'node:process'
import { connect } from 'holdfast'

const locks = await connect(argv[2] ?? '')
await locks.mutex('idle').run(() => {})
stdout.write('done\n')
