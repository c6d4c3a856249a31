import type { Model } from '../operation.js'

/** What was asked for and answered first; the answer is null while only somebody who was not answered knows it. */
interface Done {
  readonly input: string | null
  readonly answer: string | null
}

/** Something that is done once: whoever asks for the same gets the same answer, and nobody gets one for another request. */
export const idempotent: Model<Done | null> = {
  init: null,
  step(state, { f, input, output, ret }) {
    if (f !== 'execute') return state
    const asked = input?.input ?? null
    const answer = ret === null ? null : JSON.stringify(output?.value ?? null)
    if (state === null) return { input: asked, answer }
    if (state.input !== asked) return undefined
    if (state.answer === null) return { input: asked, answer }
    return answer === null || answer === state.answer ? state : undefined
  },
  key: (state) => JSON.stringify(state),
}
