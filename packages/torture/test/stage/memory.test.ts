import { describeStages } from './stage-suite.js'

describeStages([{ store: 'memory', recipe: 'line', faults: [] }])
