import type { LabCase } from '../../case.js'
import { FencedData } from '../../recipes/consul/data.js'
import { NoLockDelay } from '../../recipes/consul/no-lock-delay.js'
import { ours } from '../../recipes/ours.js'

export const consulNoLockDelay: LabCase = {
  name: 'consul-no-lock-delay',
  title: 'A session without a lock delay, and data without a fence',
  family: 'consul',
  stores: ['consul'],
  story:
    'When a session ends, Consul keeps everybody from its locks for the lock delay, 15 seconds unless set, so that what the ' +
    'former holder has sent can arrive first. It makes every fail-over 15 seconds longer, so many set it to 0. But it is a ' +
    'guess at how long a process can be late, and not a check: with the delay, a pause that is longer than session and delay ' +
    'together does the same harm.',
  fault:
    'A looks at its clock, all is well, and its process is stopped before the write leaves. Its session ends, B gets the ' +
    'lock at once, writes and releases. A goes on, and its write is accepted.',
  expects: 'stale-write-accepted',
  ours:
    '`consul:` with `lockDelayMs=0`, and data that keep the highest fence. The fence is the `ModifyIndex` of the step that took ' +
    'the lock, which only ever rises. The write of A shows a lower one than that of B and is refused, however late it is.',
  resources: { 'account/data': { kind: 'register' } },
  open: {
    broken: (world) => new NoLockDelay(world),
    ours: ours({ query: 'lockDelayMs=0&ttlMinMs=1000', resource: (world) => new FencedData(world.url) }),
  },
  schedule: async (scene) => {
    scene.ttlMs = 4_000
    const [a, b] = [await scene.actor('A'), await scene.actor('B')]
    await a.arm('between check and write', 'stop')
    await a.acquire()
    const writing = a.write(1, { check: true })
    await a.reaches('between check and write')
    await b.acquire({ waitMs: 60_000 })
    await b.write(2)
    await b.release()
    await scene.resume(a)
    await writing
    await a.release()
  },
}
