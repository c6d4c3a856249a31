/** What the two processes of a hand-over do. */

import { Redis } from 'ioredis'
import { machineMs } from './clock.js'
import type { Release } from './subject.js'
import type { Workplace } from './workplace.js'

export interface LockAsk {
  readonly subject: string
  readonly name: string
}

/** One at a time is enough. */
let held: Release | null = null

export async function takeTask(workplace: Workplace, { subject, name }: LockAsk): Promise<void> {
  const client = await workplace.client(subject)
  held = await client.take(name)
}

/** Says when it began to give the lock back. */
export async function giveBackTask(_workplace: Workplace, _ask: null): Promise<number> {
  const release = held
  if (release === null) throw new Error('There is nothing to give back.')
  held = null
  const since = machineMs()
  await release()
  return since
}

/** Says when it had the lock, which it gives back at once. */
export async function waitTask(workplace: Workplace, { subject, name }: LockAsk): Promise<number> {
  const client = await workplace.client(subject)
  const release = await client.take(name)
  const got = machineMs()
  await release()
  return got
}

interface Line {
  readonly publisher: Redis
  readonly subscriber: Redis
}

const lines = new Map<string, Promise<Line>>()

async function connectLine(port: number, channel: string): Promise<Line> {
  const publisher = new Redis(port, '127.0.0.1')
  const subscriber = new Redis(port, '127.0.0.1')
  await publisher.ping()
  await subscriber.subscribe(channel)
  return { publisher, subscriber }
}

function lineOf(port: number, channel: string): Promise<Line> {
  const known = lines.get(channel)
  if (known !== undefined) return known
  const opened = connectLine(port, channel)
  lines.set(channel, opened)
  return opened
}

/** From now on answers every ping with a pong. */
export async function listenTask({ port }: Workplace, _ask: null): Promise<void> {
  const { publisher, subscriber } = await lineOf(port, 'ping')
  subscriber.on('message', () => {
    void publisher.publish('pong', '')
  })
}

/** Publishes, and says how long it took until the other's answer was there. */
export async function pingTask({ port }: Workplace, _ask: null): Promise<number> {
  const { publisher, subscriber } = await lineOf(port, 'pong')
  const since = machineMs()
  const answered = new Promise<number>((resolve) => {
    subscriber.once('message', () => resolve(machineMs() - since))
  })
  await publisher.publish('ping', '')
  return answered
}
