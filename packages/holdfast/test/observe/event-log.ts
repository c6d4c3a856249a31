import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { EVENTS_CHANNEL, type HoldfastEvent } from '../../src/index.js'

/** Writes down what is told, until the end of the block that made it. */
export class EventLog implements Disposable {
  readonly events: HoldfastEvent[] = []
  readonly #note = (event: unknown): void => void this.events.push(event as HoldfastEvent)

  constructor() {
    subscribe(EVENTS_CHANNEL, this.#note)
  }

  of<T extends HoldfastEvent['type']>(type: T): Extract<HoldfastEvent, { readonly type: T }>[] {
    return this.events.filter((event) => event.type === type) as Extract<
      HoldfastEvent,
      { readonly type: T }
    >[]
  }

  /** What was told of one acquisition, in order. */
  course(acquisition: number | undefined): string[] {
    return this.events.flatMap((event) => {
      const concerns =
        'acquisition' in event
          ? event.acquisition === acquisition
          : 'acquisitions' in event && event.acquisitions.some((one) => one === acquisition)
      return concerns ? [event.type] : []
    })
  }

  [Symbol.dispose](): void {
    unsubscribe(EVENTS_CHANNEL, this.#note)
  }
}
