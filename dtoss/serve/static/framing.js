// One frame of windows: asked for, drawn as a heat map with arrows, and explained by the legend.

import { isoOf, lastEnd, moving, nameOf, now, shown, unit, valueOf } from './counting.js'
import { $, coloured, fail, make } from './elements.js'
import { drawFlows } from './flows.js'
import {
  boundsOf, classOf, colourRegions, drawnRegions, drawRegions, hasRegion, MEASURES, placeOfRegion, regionAt, showRegions,
  spreadColours, valueText,
} from './heat.js'
import { compact, whole } from './places.js'
import { ask, asked, newest } from './window_answers.js'

const PAUSE = 60
let stop = new AbortController(), timer, drawnOf = null
/** The bounds of classes, and the highest value of which they are: they stay while time goes on, and grow. */
let scale = { most: 0, bounds: [] }

/** Ask for what is chosen, soon, and draw it; `then` is called where it was drawn. */
export function look(then, pause = PAUSE) {
  clearTimeout(timer)
  timer = setTimeout(() => looked().then(then, failed), pause)
}

/** Choose classes anew at the next frame. */
export const rescale = () => { scale = { most: 0, bounds: [] } }

function failed(error) {
  if (error.name === 'AbortError') return
  note(error.message)
  if (error.status !== 400) fail(error)
}

function note(text) {
  $('w-note').textContent = text
  $('w-note').hidden = !text
}

async function looked() {
  stop.abort()
  stop = new AbortController()
  const { signal } = stop, { facts, see } = now
  if (lastEnd() == null) return note('No row was read yet: the first window ends with the first file of positions')
  if (!shown() && !see.flows) return paint()
  await drawKeys(signal)
  const [told, moves] = await Promise.all([
    shown() ? newest(() => ask('', asked(), signal), facts.batch) : null, see.flows && moving() ? largest(signal) : null,
  ])
  if (told) {
    const { rows, batch, end, window: length } = told
    now.frame = { values: new Map(rows.map(row => [String(row.key), row])), batch, end, length }
  }
  for (const row of told?.rows ?? []) if (row.name != null) now.names.set(String(row.key), String(row.name))
  const wanted = told ? told.rows.map(row => row.key) : moves?.list.flatMap(one => [one.from, one.to]) ?? []
  if (isEndless() && wanted.some(key => !hasRegion(key))) await drawMore(signal)
  now.flows = moves
  note(moves?.problem ?? (told && !told.rows.length ? `Nothing happened in the ${see.length} before ${told.end ?? 'now'}` : ''))
  paint()
  // what was drawn, for who measures
  const said = { windowsBatch: told?.batch ?? facts.batch, windowsEnd: told?.end ?? '' }
  now.hooks.rendered(() => Object.assign($('stage').dataset, { ...said, windowsDrawn: Date.now() }))
}

/** Return whether there are too many keys to draw all: then only those are drawn that were seen. */
const isEndless = () => now.facts.by.startsWith('h3:')

/** Draw the regions of the windows, once for the same keys; cells of H3 as they are seen. */
async function drawKeys(signal) {
  const of = `${now.facts.name} ${now.facts.digest}`
  if (drawnOf === of) return
  Object.assign(now, { names: new Map(), drawable: true, undrawn: '' })
  if (isEndless()) drawRegions([], !shown())
  else await drawMore(signal)
  drawnOf = of
}

/** Draw regions of keys that were not drawn yet; where they cannot be drawn, it is said, and what is counted is told. */
async function drawMore(signal) {
  const endless = isEndless()
  try {
    const { features, drawable } = await ask('/regions', endless && now.see.end != null ? { end: isoOf(now.see.end) } : {}, signal)
    Object.assign(now, { drawable, undrawn: '' })
    for (const { properties: { key, name } } of features) if (name != null) now.names.set(String(key), String(name))
    const before = endless ? drawnRegions() : [], fresh = endless ? features.filter(one => !hasRegion(one.properties.key)) : features
    if (fresh.length || !endless) drawRegions([...before, ...fresh], !shown())
  } catch (error) {
    if (error.status !== 400 && error.status !== 413) throw error
    now.undrawn = error.message
  }
}

/** Return the largest flows; those that are kept no more are said, and are no error. */
async function largest(signal) {
  try {
    const { rows } = await newest(() => ask('/flow', asked(), signal), now.facts.batch), inside = one => String(one) !== '-1'
    const list = rows.filter(one => one.from !== one.to && inside(one.from) && inside(one.to))
    list.sort((a, b) => b.moves - a.moves || a.from - b.from || a.to - b.to)
    return { list: list.slice(0, now.see.flows), of: list.length }
  } catch (error) {
    if (error.status !== 400) throw error
    return { list: [], of: 0, problem: `No arrows: ${error.message}` }
  }
}

const ramp = () => spreadColours(now.hooks.colours().ramp, scale.bounds.length)

/** Colour regions and draw arrows. */
export function paint() {
  showRegions(shown())
  if (shown() && now.frame) {
    const values = [...now.frame.values.keys()].map(valueOf).filter(value => value > 0), most = Math.max(0, ...values)
    if (most > scale.most) scale = { most, bounds: boundsOf(now.see.measure, values, now.hooks.colours().ramp.length) }
    const colours = ramp()
    colourRegions(key => (valueOf(key) > 0 ? colours[classOf(scale.bounds, valueOf(key))] : null))
  }
  const list = now.see.flows && moving() ? now.flows?.list ?? [] : []
  const placed = list.map(one => ({ a: placeOfRegion(one.from), b: placeOfRegion(one.to), moves: one.moves }))
  drawFlows(placed.filter(({ a, b }) => a && b))
  now.hooks.changed()
}

/** Return what the legend says of windows. */
export function legendOf() {
  const parts = [], said = text => make('p', { className: 'note', textContent: text }), { facts, see, frame, flows } = now
  const part = (title, ...children) => parts.push(make('div', {}, make('h2', { textContent: title }), ...children))
  if (shown() && !now.drawable) part(facts.name, said('The regions of these windows are in another CRS than the map, and not drawn'))
  else if (shown() && now.undrawn) part(facts.name, said(now.undrawn))
  else if (shown() && frame) {
    const ends = scale.bounds.map(bound => make('span', { textContent: compact.format(bound) }))
    const colours = make('div', { className: 'ramp' }, ...ramp().map(coloured)), steps = make('p', { className: 'steps' }, ...ends)
    part(`${facts.name}: ${MEASURES[see.measure].title}`, ...(ends.length ? [colours, steps] : []),
      said(`${unit()} in ${see.length}; a colour from its number on, none for 0`))
  }
  if (facts && see.flows && flows?.list.length) {
    const arrow = Object.assign(coloured(now.hooks.colours().flow), { className: 'arrow' }), { list, of } = flows
    const [many, all, least, most] = [list.length, of, list.at(-1).moves, list[0].moves].map(one => whole.format(one))
    part(`Flows in ${see.length}`, make('ul', {}, make('li', {}, arrow, `${many} of ${all}: ${least} to ${most} moves`)))
  }
  return parts
}

/** Return what the pointer reads: the region under it and its value. */
export function readingAt(point) {
  const key = shown() && point ? regionAt(point) : null
  return key == null ? '' : ` · ${nameOf(key)}: ${valueText(now.see.measure, valueOf(key) ?? 0)} ${unit()}`
}
