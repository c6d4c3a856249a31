/** What the examiners of all servers have in common: how findings are made, and in which words. */

import type { Finding, FindingLevel } from '../../../core/doctor.js'
import type { Runtime } from '../../../core/runtime.js'

/** Where time comes from. */
export type ProbeRuntime = Pick<Runtime, 'clock' | 'timers'>

export function finding(level: FindingLevel, check: string, found: string, advice: string): Finding {
  return { level, check, found, advice }
}

export function ok(check: string, found: string): Finding {
  return { level: 'ok', check, found, advice: null }
}

export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/i

export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host)
}
