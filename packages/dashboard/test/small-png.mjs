// @ts-check
// Makes a PNG of a page smaller: 256 colours are enough for flat surfaces and text, and compress far better than millions.

import { crc32, deflateSync, inflateSync } from 'node:zlib'

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

/**
 * @param {Buffer} png 8 bits, true colour, not interlaced, as browsers write it
 * @returns {Buffer}
 */
export function smallPng(png) {
  const { width, height, channels, pixels } = decode(png)
  /** @type {Map<number, number>} */
  const counts = new Map()
  const colours = new Uint32Array(width * height)
  for (let at = 0; at < colours.length; at++) {
    const from = at * channels
    const colour = ((pixels[from] ?? 0) << 16) | ((pixels[from + 1] ?? 0) << 8) | (pixels[from + 2] ?? 0)
    colours[at] = colour
    counts.set(colour, (counts.get(colour) ?? 0) + 1)
  }
  const palette = [...counts]
    .sort((a, b) => b[1] - a[1])
    .slice(0, 256)
    .map(([colour]) => colour)
  const places = new Map(palette.map((colour, index) => [colour, index]))
  const rows = Buffer.alloc((width + 1) * height)
  colours.forEach((colour, at) => {
    const place = places.get(colour) ?? nearest(palette, colour)
    places.set(colour, place)
    // Each row begins with its filter: none.
    rows[at + Math.floor(at / width) + 1] = place
  })
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 3, 0, 0, 0], 8)
  const table = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]))
  const data = deflateSync(rows, { level: 9, memLevel: 9 })
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('PLTE', table),
    chunk('IDAT', data),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/**
 * @param {readonly number[]} palette
 * @param {number} colour
 */
function nearest(palette, colour) {
  let best = 0
  let least = Number.POSITIVE_INFINITY
  palette.forEach((one, index) => {
    const [r, g, b] = [
      (one >> 16) - (colour >> 16),
      ((one >> 8) & 255) - ((colour >> 8) & 255),
      (one & 255) - (colour & 255),
    ]
    const distance = 2 * r * r + 4 * g * g + 3 * b * b
    if (distance >= least) return
    least = distance
    best = index
  })
  return best
}

/**
 * @param {string} type
 * @param {Buffer} data
 */
function chunk(type, data) {
  const whole = Buffer.alloc(data.length + 12)
  whole.writeUInt32BE(data.length, 0)
  whole.write(type, 4, 'latin1')
  data.copy(whole, 8)
  whole.writeUInt32BE(crc32(whole.subarray(4, data.length + 8)), data.length + 8)
  return whole
}

/** @param {Buffer} png */
function decode(png) {
  const parts = []
  let [width, height, channels] = [0, 0, 0]
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at)
    const type = png.toString('latin1', at + 4, at + 8)
    const data = png.subarray(at + 8, at + 8 + length)
    if (type === 'IHDR') {
      width = data.readUInt32BE(0)
      height = data.readUInt32BE(4)
      const kind = data[9]
      if (data[8] !== 8 || data[12] !== 0 || (kind !== 2 && kind !== 6))
        throw new Error('This PNG is of another kind.')
      channels = kind === 2 ? 3 : 4
    }
    if (type === 'IDAT') parts.push(data)
    at += length + 12
  }
  return {
    width,
    height,
    channels,
    pixels: unfilter(inflateSync(Buffer.concat(parts)), width * channels, height, channels),
  }
}

/**
 * @param {Buffer} data
 * @param {number} stride
 * @param {number} height
 * @param {number} channels
 */
function unfilter(data, stride, height, channels) {
  const pixels = Buffer.alloc(stride * height)
  for (let row = 0; row < height; row++) {
    const filter = data[row * (stride + 1)] ?? 0
    for (let at = 0; at < stride; at++) {
      const here = row * stride + at
      const left = at >= channels ? (pixels[here - channels] ?? 0) : 0
      const up = row > 0 ? (pixels[here - stride] ?? 0) : 0
      const corner = at >= channels && row > 0 ? (pixels[here - stride - channels] ?? 0) : 0
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter] ?? 0
      pixels[here] = (data[row * (stride + 1) + 1 + at] ?? 0) + guess
    }
  }
  return pixels
}

/**
 * @param {number} left
 * @param {number} up
 * @param {number} corner
 */
function paeth(left, up, corner) {
  const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)]
  return a <= b && a <= c ? left : b <= c ? up : corner
}
