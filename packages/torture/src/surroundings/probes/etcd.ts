import { etcdRequest } from 'holdfast-servers'
import { portOf, type ServerProbe } from './probe.js'

const EVERYTHING = Buffer.from([0]).toString('base64')

/** Keys with their bytes, and leases. */
export function etcdProbe(url: string): ServerProbe {
  return async () => {
    const port = portOf(url)
    const found: unknown = await etcdRequest(port, '/v3/kv/range', { key: EVERYTHING, range_end: EVERYTHING })
    const leases: unknown = await etcdRequest(port, '/v3/lease/leases', {})
    const kvs = listOf(found, 'kvs')
    const bytes = kvs.reduce<number>(
      (sum, kv) => sum + textOf(kv, 'key').length + textOf(kv, 'value').length,
      0,
    )
    return { keys: kvs.length, 'bytes of keys': bytes, leases: listOf(leases, 'leases').length }
  }
}

function listOf(answer: unknown, field: string): readonly unknown[] {
  const value: unknown = Reflect.get(Object(answer), field)
  return Array.isArray(value) ? value : []
}

function textOf(kv: unknown, field: string): string {
  const value: unknown = Reflect.get(Object(kv), field)
  return typeof value === 'string' ? value : ''
}
