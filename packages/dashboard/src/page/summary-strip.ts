import { countOf } from '../model/circles.js'
import { roundUp, type Second } from '../model/series.js'
import { el, setText, svg } from './dom.js'
import type { Stage } from './view.js'

const SPARK = { width: 120, height: 26, seconds: 60 } as const

/** The most important numbers, above the table. */
export class SummaryStrip {
  readonly element: HTMLElement
  readonly #stage: Stage
  readonly #numbers = new Map<string, HTMLElement>()
  readonly #line = svg('path', { class: 'spark-line' })
  readonly #area = svg('path', { class: 'spark-area' })
  readonly #deadlocks = el('a', { class: 'number deadlocks', href: '#/graph' })
  readonly #possible = el('a', { class: 'number possible warn', href: '#/graph', hidden: '' })

  constructor(stage: Stage) {
    this.#stage = stage
    const spark = svg(
      'svg',
      {
        class: 'spark',
        viewBox: `0 0 ${SPARK.width} ${SPARK.height}`,
        preserveAspectRatio: 'none',
        'aria-hidden': 'true',
      },
      this.#area,
      this.#line,
    )
    this.#deadlocks.append(...this.#parts('deadlocks', 'deadlocks'))
    this.#possible.append(...this.#parts('possible', 'possible deadlocks'))
    this.element = el(
      'div',
      { class: 'strip' },
      this.#number('locks', 'locks'),
      this.#number('held', 'held'),
      this.#number('waiting', 'waiting'),
      el('div', { class: 'number wide' }, ...this.#parts('rate', 'acquired / s'), spark),
      this.#number('lost', 'lost, 5 min'),
      this.#deadlocks,
      this.#possible,
    )
  }

  update(): void {
    const { rows, series, deadlocks, deadlocksLeftOut, stats, complete } = this.#stage.state
    const unknown = complete ? '0' : '–'
    const seconds = series.all()
    const lost = total(seconds, (one) => one.lost + one.broken)
    const write = (key: string, text: string): void => {
      const element = this.#numbers.get(key)
      if (element !== undefined) setText(element, text)
    }
    write('locks', complete ? rows.size.toLocaleString('en') : unknown)
    write('held', stats === null ? unknown : stats.holders.toLocaleString('en'))
    write('waiting', stats === null ? unknown : stats.waiters.toLocaleString('en'))
    write('rate', rateOf(seconds))
    write('lost', stats === null ? unknown : lost.toLocaleString('en'))
    const [certain, possible] = [countOf(deadlocks, 'certain'), countOf(deadlocks, 'possible')]
    // Those that are left out are of one kind or the other.
    const more = deadlocksLeftOut > 0 ? '+' : ''
    write('deadlocks', complete ? `${certain}${more}` : unknown)
    write('possible', `${possible}${more}`)
    this.#numbers.get('lost')?.parentElement?.classList.toggle('warn', lost > 0)
    this.#deadlocks.classList.toggle('bad', certain > 0)
    this.#possible.hidden = possible === 0
    this.#draw(seconds.slice(-SPARK.seconds).map((one) => one?.acquired ?? null))
  }

  #draw(values: readonly (number | null)[]): void {
    const most = roundUp(Math.max(1, ...values.map((value) => value ?? 0)))
    const step = SPARK.width / (SPARK.seconds - 1)
    const points = values.flatMap((value, index) =>
      value === null
        ? []
        : [
            `${(index * step).toFixed(1)},${(SPARK.height - 1 - (value / most) * (SPARK.height - 3)).toFixed(1)}`,
          ],
    )
    const first = points[0]?.split(',')[0] ?? '0'
    this.#line.setAttribute('d', points.length === 0 ? '' : `M${points.join('L')}`)
    this.#area.setAttribute(
      'd',
      points.length === 0 ? '' : `M${first},${SPARK.height}L${points.join('L')}V${SPARK.height}Z`,
    )
  }

  #number(key: string, label: string): HTMLElement {
    return el('div', { class: 'number' }, ...this.#parts(key, label))
  }

  #parts(key: string, label: string): HTMLElement[] {
    const value = el('span', { class: 'value' }, '–')
    this.#numbers.set(key, value)
    return [value, el('span', { class: 'label' }, label)]
  }
}

/** Over ten seconds, since single seconds jump. */
function rateOf(seconds: readonly (Second | null)[]): string {
  const heard = seconds.slice(-10).filter((second) => second !== null)
  if (heard.length === 0) return '–'
  const rate = heard.reduce((sum, second) => sum + second.acquired, 0) / heard.length
  return rate >= 100 ? Math.round(rate).toLocaleString('en') : rate.toFixed(1)
}

function total(seconds: readonly (Second | null)[], pick: (second: Second) => number): number {
  return seconds.reduce((sum, second) => sum + (second === null ? 0 : pick(second)), 0)
}
