// One leader at a time. Everybody else can see who it is and how to reach it.
import { connect } from 'holdfast'

await using locks = await connect('memory:example')
const election = locks.election('scheduler')

const leadership = await election.campaign({ note: 'http://10.0.0.7:8080' })
const leader = await election.leader()
console.log(`process ${leader?.owner.pid} leads, at ${leader?.note}`)

// Lead until the office is lost or the work is done.
leadership.signal.addEventListener('abort', () => console.log('no longer the leader'))
await leadership.resign()
