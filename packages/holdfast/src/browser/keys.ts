/** A fresh key in the form of a UUID. `randomUUID` is missing where a page was not loaded over HTTPS. */
export function freshKey(): string {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID()
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  const hex = Array.from(bytes, (byte, at) => {
    // Version 4, variant 10, as RFC 9562 has it.
    const marked = at === 6 ? (byte & 15) | 64 : at === 8 ? (byte & 63) | 128 : byte
    return (at === 4 || at === 6 || at === 8 || at === 10 ? '-' : '') + marked.toString(16).padStart(2, '0')
  })
  return hex.join('')
}
