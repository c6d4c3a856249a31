/** What can be said about a database from its URL alone. */

import type { Finding } from '../../../core/doctor.js'
import { finding, isLoopback, ok } from '../../shared/doctor/findings.js'
import type { SqlAddress } from '../address.js'

export function checkTransport({ host, password, options }: SqlAddress): Finding[] {
  const mode = options.get('sslmode')
  if (mode === 'verify-full') return [ok('transport', 'TLS, and the certificate is checked')]
  if (isLoopback(host))
    return [ok('transport', mode === 'require' ? 'TLS within this machine' : 'TCP within this machine')]
  if (mode === 'require') {
    const advice =
      'Whoever can pose as the server learns the password. Use `sslmode=verify-full`, with `ca` if need be.'
    return [finding('note', 'transport', 'TLS to another machine, whoever that is', advice)]
  }
  if (password === undefined) {
    const advice =
      'Whoever reaches the server can break every lock. Use a password and `sslmode=verify-full`.'
    return [finding('note', 'transport', 'TCP to another machine, without a password', advice)]
  }
  const advice =
    'Whoever can listen on the way sees every statement, and with some ways of logging in the password. Use ' +
    '`sslmode=verify-full`.'
  return [
    finding('warning', 'transport', 'TCP to another machine, with a password and not encrypted', advice),
  ]
}

/** As many connections as the examination wants, however few the locks may have. */
export function forExamination(address: SqlAddress): SqlAddress {
  return { ...address, options: new Map([...address.options].filter(([name]) => name !== 'max')) }
}
