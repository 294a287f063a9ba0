// The watch of the store: its subscriptions in view, how often what happens, and which of them are the busiest.

import { moment } from './answers.js'
import { ask } from './asking.js'
import { $, coloured, make, pairs, table, textButton, warn } from './elements.js'
import { drawFences, featuresOf, fencesOn, look, seen } from './fences.js'
import { addMarks, clearMarks, hasMarks, marksOn } from './marks.js'
import { exactly, length, placeText, short, whole } from './places.js'

const KINDS = { enter: 'disc', leave: 'ring', inside: 'dot', dwell: 'square', cross: 'times' }
/** Kinds that are named always; of the others those of which there are some. */
const USUAL = ['enter', 'leave', 'inside']
/** Milliseconds before subscriptions that have changed are asked for. */
const CHANGED = 1000
let map, hooks, told = null, mark = null, order = []

/** Begin to show a watch; `hooks` are colours(), hidden(name), follow(id, move, at), nearest(at), began(), again(), changed(). */
export function watchOn(made, given) {
  [map, hooks] = [made, given]
  marksOn(map, hooks.colours, hooks.changed)
  fencesOn(map, { ...hooks, changed: () => { panel(); hooks.changed() } })
}

/** Take what the server says of the watch, each second at most. */
export function heard(event) {
  const first = !told, fresh = event.batch !== told?.batch
  told = event
  if (first) {
    $('watch').hidden = false
    drawFences()
    hooks.began()
  }
  if (fresh && event.marks && !hooks.hidden('events')) addMarks(event.marks)
  if (event.mark !== mark) look(first ? 0 : CHANGED)
  if (event.mark !== mark && !first) hooks.again()
  mark = event.mark
  panel()
  hooks.changed()
}

const kinds = () => Object.keys(KINDS).filter(kind => USUAL.includes(kind) || told.events?.[kind] || told.rates?.[kind])

export const watched = () => told !== null
export const repaintWatch = () => { if (told) drawFences() }

/** Show or hide a part of the watch that was switched on or off. */
export function switched(name, on) {
  if (name === 'events' && !on) clearMarks()
  if (name === 'subscriptions' && on) look(0)
}

export const subscriptionAt = async (id, zoom, signal) => (
  ask(`/map/subscription?${new URLSearchParams({ id, zoom: zoom.toFixed(1) })}`, signal))

function placeOf({ outside, ...place }, unit, zoom) {
  if (outside) return `outside of: ${placeOf(place, unit, zoom)}`
  const { circle, box, polygon, around } = place
  const at = ([x, y]) => (unit === 'm' ? placeText([x, y], zoom) : `${exactly(x)}, ${exactly(y)}`)
  if (circle) return `circle of ${length(circle[2], unit)} round ${at(circle)}`
  if (box) return `box from ${at(box)} to ${at(box.slice(2))}`
  if (around) return `${length(around.distance, unit)} round object ${around.object}, ${around.centre ? at(around.centre) : 'not there'}`
  if (!polygon) return 'everywhere'
  return `polygon of ${whole.format(polygon.corners)} corners${polygon.parts > 1 ? ` in ${polygon.parts} parts` : ''}`
}

/** Return what an answer says of a subscription, and what is drawn of it. */
export function subscriptionTold(one, others, at) {
  const counted = one.counts && Object.keys(KINDS).filter(kind => one.counts[kind]).map(kind => `${whole.format(one.counts[kind])} ${kind}`)
  const said = [
    ['place', placeOf(one.place, one.unit, map.getZoom())], ['where', one.where ?? 'any'], ...(one.words ? [['words', one.words]] : []),
    ['wants', one.wants.join(', ')], ['had', counted ? counted.join(', ') || 'no event yet' : 'not counted: too many events'],
    ['version', String(one.version)], ...(one.expires ? [['expires', moment(one.expires)]] : []), ...(one.meta ? [['meta', one.meta]] : []),
  ]
  const chips = others.filter(id => id !== one.id).map(id => textButton(id, () => hooks.follow(id, false, at)))
  const also = make('p', { className: 'note', textContent: 'Also here' })
  const more = chips.length && make('div', {}, also, make('div', { className: 'chips' }, ...chips))
  const near = at && make('p', {}, textButton('Nearest objects here', () => hooks.nearest(at)))
  return { features: one.drawn ? featuresOf(one.drawn) : [], parts: [pairs(said), more || null, near || null] }
}

const inView = () => (seen && !hooks.hidden('subscriptions')
  ? `Showing ${whole.format(seen.shown)} of ${whole.format(seen.found)} subscriptions in view` : '')

function panel() {
  warn('watch-problem', 'The watch cannot be read', told.problem)
  $('watch-name').textContent = told.watch
  // of a first batch there is no rate yet
  const known = !hasMarks() || kinds().some(kind => told.rates?.[kind])
  const rate = kind => (known ? short.format(told.rates?.[kind] ?? 0) : '–')
  const rates = kinds().map(kind => make('li', {}, make('strong', { textContent: rate(kind) }), ` ${kind}/s`))
  $('watch-rates').replaceChildren(...rates)
  const standing = seen ? `${whole.format(seen.standing)} subscriptions. ` : '', apart = seen && !seen.drawable
  $('watch-note').textContent = standing + (apart ? 'They are in another CRS than the map, and not drawn.' : inView())
  busiest()
}

/** Show the busiest; lines do not move under a pointer or the focus. */
export function busiest() {
  const list = told.busiest ?? [], of = new Map(list.map(one => [one[0], one]))
  if (!$('busiest').open) return
  const held = $('busiest-table').matches(':hover, :focus-within')
  if (!held || !order.length) order = list.map(([id]) => id)
  const line = id => [of.get(id)?.[1] ?? 0, of.get(id)?.[2]].map(value => (value == null ? '' : whole.format(value)))
  const lines = [...$('busiest-table').querySelectorAll('tbody tr')]
  if (held && lines.length === order.length) {
    lines.forEach((row, i) => line(order[i]).forEach((text, n) => { row.cells[n + 1].textContent = text }))
    return
  }
  const minutes = told.minutes ?? 5, some = told.sampled ? ', counted on a sample' : ''
  table($('busiest-table'), list.length ? `By events of the last ${minutes} minutes${some}` : `No events in the last ${minutes} minutes`,
    ['subscription', `${minutes} min`, 'in all'], order.map(id => [textButton(id, () => hooks.follow(id, true)), ...line(id)]))
}

/** Return what the legend says of the watch: names of colours, and of how many some are shown. */
export function legendOf() {
  const c = hooks.colours(), { events, marks = [] } = told ?? {}, parts = [], lines = []
  const piece = (name, colour, look) => {
    const made = Object.assign(coloured(look === 'ring' ? 'transparent' : colour), { className: look })
    made.style.borderColor = colour
    return make('li', {}, made, name)
  }
  if (events && !hooks.hidden('events')) {
    parts.push(...kinds().map(kind => piece(kind, c[kind], KINDS[kind])))
    const all = kinds().reduce((sum, kind) => sum + events[kind], 0)
    if (marks.length < all && hasMarks()) lines.push(`Marks: ${whole.format(marks.length)} of the last ${whole.format(all)} events`)
  }
  if (seen?.drawable && told && !hooks.hidden('subscriptions')) {
    parts.push(piece('subscription', `color-mix(in srgb, ${c.fence} 15%, transparent)`, 'square'))
    parts.at(-1).firstElementChild.style.borderColor = c.fence
    if (seen.shown < seen.found) lines.push(inView())
  }
  const notes = lines.map(textContent => make('p', { className: 'note', textContent }))
  const title = make('h2', { textContent: 'Watch' }), list = make('ul', { className: 'kinds' }, ...parts)
  return parts.length ? [make('div', {}, title, list, ...notes)] : []
}
