const nobodyNotifies = new Int32Array(new SharedArrayBuffer(4))

/** Nothing else of this process runs in that time: no timer, no renewal, no answer. Unlike a busy loop, it leaves the processor to others. */
export function blockFor(ms: number): void {
  Atomics.wait(nobodyNotifies, 0, 0, ms)
}
