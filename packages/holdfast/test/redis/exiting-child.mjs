// @ts-check
// Takes a lock over the URL with somebody waiting behind it, gives it back and closes, or tells why it could not. It
// then has nothing more to do, and ends only if nothing of the library keeps it.
import { argv, stdout } from 'node:process'
import { connect } from 'holdfast'

const [url = '', name = ''] = argv.slice(2)
try {
  const locks = await connect(url, { ttlMs: 60_000 })
  const hold = await locks.mutex(name).acquire()
  const waiting = locks.mutex(name).tryAcquire({ waitMs: 30_000 })
  await hold.release()
  await (await waiting)?.release()
  // One more that is still held.
  await locks.mutex(`${name}-2`).acquire()
  await locks.close()
  stdout.write('closed\n')
} catch (error) {
  stdout.write(`${Reflect.get(Object(error), 'code')}\n`)
}
