/** Looks for what breaks locks in how the lock service is reached and set up. Nothing is changed, and no lock is touched. */

import type { Finding } from '../../core/doctor.js'
import { quote } from '../../core/errors.js'
import { count, finding, isLoopback, ok, type ProbeRuntime } from '../shared/doctor/findings.js'
import { measureLatency } from '../shared/doctor/timing.js'
import { accessOf, parseServiceUrl, type ServiceAddress } from './address.js'
import type { ServiceFacts } from './answers.js'
import { factsOf } from './backend.js'
import { ServiceClient } from './client.js'

/** Examines what a URL for `connect()` leads to. Rejects where nothing can be found out, because nobody answers. */
export async function examineRemoteUrl(url: string, { clock }: ProbeRuntime): Promise<Finding[]> {
  const address = parseServiceUrl(url)
  const access = await accessOf(address)
  const client = new ServiceClient(access)
  try {
    const facts = await factsOf(client)
    return [
      ...checkTransport(address, access.token !== null),
      ...checkStore(facts),
      ...checkInstances(address, facts),
      ...(await measureLatency(() => factsOf(client), clock)),
    ]
  } finally {
    client.close()
  }
}

function checkTransport({ hosts, isSecure, token }: ServiceAddress, hasToken: boolean): Finding[] {
  const findings: Finding[] = []
  if (token !== null) {
    const advice =
      'A URL shows in lists of processes and in logs. Put the token into a file and give `tokenFile`, or into `HOLDFAST_TOKEN`.'
    findings.push(finding('note', 'token', 'the token stands in the URL', advice))
  }
  if (isSecure) return [...findings, ok('transport', 'TLS, and the certificate is checked')]
  if (hosts.every(({ host }) => isLoopback(host))) {
    return [...findings, ok('transport', 'TCP within this machine')]
  }
  const advice = hasToken
    ? 'Whoever can listen on the way learns the token. Use `https:`.'
    : 'Whoever can listen or talk on the way can break every lock. Use `https:` and tokens.'
  return [...findings, finding('warning', 'transport', 'TCP to another machine, not encrypted', advice)]
}

function checkStore({ version, store, guarantees }: ServiceFacts): Finding[] {
  const { safety, keptBy, fencing } = guarantees
  const shown = (text: string): string => quote(text.slice(0, 40)).slice(1, -1)
  const advice =
    'What can break the locks of its store breaks these, too: examine it with its own URL where the service runs.'
  return [
    ok('version', shown(version)),
    finding('note', 'store', `${shown(store)}: ${safety}, kept by ${keptBy}, fences ${fencing}`, advice),
  ]
}

function checkInstances({ hosts }: ServiceAddress, { guarantees }: ServiceFacts): Finding[] {
  if (hosts.length === 1) {
    const advice =
      'Holders keep what they have until their ttl if it is away for a while; nobody can acquire meanwhile. Run a second one over the same store.'
    return [finding('note', 'instances', 'one', advice)]
  }
  if (guarantees.keptBy === 'lease') return [ok('instances', count(hosts.length, 'instance'))]
  const advice =
    'The store keeps locks by a session of the instance, so the end of an instance is the end of what it granted.'
  return [finding('note', 'instances', count(hosts.length, 'instance'), advice)]
}
