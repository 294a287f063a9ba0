// What the page knows of the windows of the store, and of what is shown of them.

import { MEASURES, unitOf } from './heat.js'

/**
 * `all` windows as the server tells of them and `facts` of those that are shown; `see`, what a person chose; the `frame`
 * and the `flows` that were asked for last; `names` of regions by key; whether they are `drawable` on this map, and why
 * they are `undrawn` where that has another reason; the `hooks` of the map.
 */
export const now = {
  all: null, facts: null, see: null, hooks: null, frame: null, flows: null, names: new Map(), drawable: true, undrawn: '',
}

const SECOND = 1e6
/** Lengths, in seconds, that may be asked for undeclared where windows end now. */
const USUAL = [1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800]
const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's'], [0.001, 'ms']]

export const shown = () => Boolean(now.facts && now.see.measure !== 'none')
export const moving = () => now.facts.measures.includes('flow')
export const measures = () => now.facts.measures.filter(name => MEASURES[name])
/** Return the measure of a person who has chosen none. */
export const usual = () => (measures().includes('objects') ? 'objects' : measures()[0] ?? 'none')
/** Return the measure that is shown of a region, null where there is none. */
export const valueOf = key => now.frame?.values.get(key)?.[now.see.measure] ?? null
export const nameOf = key => now.names.get(String(key)) ?? String(key)
export const unit = (measure = now.see.measure) => unitOf(measure, now.facts.metric !== 'sphere', now.hooks.unit())

// ---- lengths and ends, in microseconds

/** Return a length as the server reads it. */
export function textOf(us) {
  const [seconds, name] = UNITS.find(([size]) => us % (size * SECOND) === 0) ?? UNITS.at(-1)
  return `${us / seconds / SECOND}${name}`
}

/** Return the microseconds of a length. */
export function lengthOf(text) {
  const [, number, name] = text.match(/^([\d.]+)\s*([a-z]+)$/) ?? [0, 0, 's']
  return number * (UNITS.find(one => one[1] === name)?.[0] ?? 1) * SECOND
}

/**
 * Return microseconds and texts of the lengths that can be asked for, that of a link too: windows of before have those
 * that are declared.
 */
export function lengths() {
  const { lengths_us: declared, lengths: texts, pane_us: pane } = now.facts, known = new Set(declared)
  const usual = now.see.end != null ? [] : [...USUAL.map(one => one * SECOND), lengthOf(now.see.length)]
  const others = new Set(usual.filter(us => us > 0 && us % pane === 0 && us < declared.at(-1) && !known.has(us)))
  const list = [...declared.map((us, i) => [us, texts[i]]), ...[...others].map(us => [us, textOf(us)])]
  return list.sort((a, b) => a[0] - b[0])
}

/** Return the last end that is due, null where none is. */
export function lastEnd() {
  const { watermark_us: mark, slide_us: slide } = now.facts
  return mark == null ? null : Math.floor(mark / slide) * slide
}
/** Return how many ends lie in the time that a person looks back over, since these windows began or replaced others. */
export function steps() {
  const { since_us: since, first_us: first, slide_us: slide } = now.facts, all = Math.round(now.see.span * SECOND / slide)
  const begun = since ?? (first == null ? null : Math.floor(first / slide) * slide)
  return Math.max(1, begun == null ? all : Math.min(all, Math.floor((lastEnd() - begun) / slide)))
}
/** Return the end of a step from the left of the slider; null is the newest. */
export const endAt = step => (step >= steps() ? null : lastEnd() - (steps() - step) * now.facts.slide_us)
export const stepOf = end => Math.max(0, steps() - Math.round((lastEnd() - end) / now.facts.slide_us))
export const isoOf = us => new Date(us / 1000).toISOString().replace('.000Z', 'Z')
export const timeText = us => isoOf(us).replace('T', ' ').replace('Z', '').replace(/(:\d\d):00$/, '$1')
