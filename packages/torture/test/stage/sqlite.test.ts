import { describeStages } from './stage-suite.js'

describeStages([{ store: 'sqlite', recipe: 'line', faults: ['clock'] }])
