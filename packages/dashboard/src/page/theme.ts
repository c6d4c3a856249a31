/** Runs before the page is drawn, so that the chosen theme is there from the first moment. */
import { applyTheme, storedTheme } from './theme-choice.js'

applyTheme(storedTheme())
