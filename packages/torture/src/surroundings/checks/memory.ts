import type { Check } from '../subject.js'
export const memory: Check = async () => null
