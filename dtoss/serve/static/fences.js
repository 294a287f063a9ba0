// The subscriptions of the watch on the map: those in view, as the server draws them.

import { ask } from './asking.js'
import { $, fail } from './elements.js'
import { colourNames, drawNames } from './names.js'
import { collection, feature, fences } from './style.js'

const NAMES = 'fence-name'
export const FENCES = ['fence-fill', 'fence-edge', 'fence-point', NAMES]
/** Milliseconds before what is in view is asked for. */
const PAUSE = 120
const LISTED = 30
let map, hooks, sizes = new Map(), timer, stop = new AbortController()
let opacity = { fill: 0.08, edge: 0.8 }
/** What the server last said of what is in view. */
export let seen = null

/** Begin to show subscriptions; `hooks` are colours(), hidden(name) and changed(). */
export function fencesOn(made, given) {
  [map, hooks] = [made, given]
  map.on('moveend', () => look())
}

const letters = () => [hooks.colours().fence, hooks.colours().halo]

/** Add the layers of subscriptions, or give them the colours of now. */
export function drawFences() {
  const specs = fences(hooks.colours(), opacity), hidden = hooks.hidden('subscriptions')
  if (!map.getSource('fences')) {
    map.addSource('fences', { type: 'geojson', data: collection([]), maxzoom: 18, tolerance: 0.2 })
    for (const spec of specs) map.addLayer({ ...spec, layout: { visibility: hidden ? 'none' : 'visible' } }, 'above-fences')
  }
  for (const spec of specs) for (const [name, value] of Object.entries(spec.paint)) map.setPaintProperty(spec.id, name, value)
  colourNames(map, NAMES, letters())
}

/** Ask for the subscriptions of what is in view, soon. */
export function look(pause = PAUSE) {
  if (!map.getSource('fences') || hooks.hidden('subscriptions')) return
  clearTimeout(timer)
  timer = setTimeout(() => asked().catch(fail), pause)
}

async function asked() {
  stop.abort()
  stop = new AbortController()
  const bounds = map.getBounds(), lat = value => Math.max(-90, Math.min(90, value)).toFixed(6)
  const query = new URLSearchParams({
    west: bounds.getWest().toFixed(6), south: lat(bounds.getSouth()), east: bounds.getEast().toFixed(6), north: lat(bounds.getNorth()),
    zoom: Math.max(0, map.getZoom()).toFixed(2),
  })
  seen = await ask(`/map/subscriptions?${query}`, stop.signal)
  const boxes = seen.shapes.map(boxOf), view = ['west', 'south', 'east', 'north'].map(name => +query.get(name))
  sizes = new Map(seen.shapes.map(({ id }, i) => [id, (boxes[i][2] - boxes[i][0]) * (boxes[i][3] - boxes[i][1])]))
  opacity = opacities(boxes, view)
  drawFences()
  const named = shape => featuresOf(shape).map(one => ({ ...one, properties: { ...one.properties, id: shape.id } }))
  map.getSource('fences')?.setData(collection(seen.shapes.flatMap(named)))
  drawNames(map, NAMES, seen.shapes.map(({ id, fill }) => ({ name: id, fill })), letters(), hooks.hidden('subscriptions'))
  $('stage').dataset.fences = `${seen.shown} of ${seen.found}`
  hooks.changed()
}

/** Return what is drawn of a subscription: what it holds, and where that ends. */
export function featuresOf({ at, fill, edges }) {
  if (at) return [feature('point', 'Point', at)]
  const lines = edges ?? fill.flat()
  return [feature('fence', 'MultiPolygon', fill), ...(lines.length ? [feature('rim', 'MultiLineString', lines)] : [])]
}

/** Return west, south, east and north of what is drawn. */
function boxOf({ at, fill }) {
  const box = [Infinity, Infinity, -Infinity, -Infinity]
  for (const [lon, lat] of at ? [at] : (fill ?? []).flat(2)) {
    box.splice(0, 4, Math.min(box[0], lon), Math.min(box[1], lat), Math.max(box[2], lon), Math.max(box[3], lat))
  }
  return box
}

/** Return how opaque fills and edges are, so that many over each other hide nothing. */
function opacities(boxes, view) {
  const { clientWidth: wide, clientHeight: high } = map.getContainer(), spans = [view[2] - view[0], view[3] - view[1]]
  let cover = 0, edge = 0
  for (const box of boxes) {
    const turns = 360 * Math.round((view[0] + view[2] - box[0] - box[2]) / 720), low = [box[0] + turns, box[1]]
    const top = [box[2] + turns, box[3]]
    const [x, y] = [0, 1].map(n => Math.max(0, Math.min(top[n], view[n + 2]) - Math.max(low[n], view[n])) / spans[n])
    const [seenX, seenY] = [0, 1].map(n => (low[n] > view[n]) + (top[n] < view[n + 2]))
    cover += x * y
    edge += (x > 0 && y > 0) * (seenY * x / high + seenX * y / wide) * 1.5
  }
  const thin = (most, layers) => 1 - (1 - most) ** (1 / Math.max(layers, 1))
  return { fill: Math.min(0.08, thin(0.35, cover)), edge: Math.min(0.8, Math.max(0.1, thin(0.8, edge))) }
}

/** Return the ids of the subscriptions that are drawn at a place, the smallest first. */
export function drawnAt(at) {
  if (!map.getSource('fences') || hooks.hidden('subscriptions')) return []
  const { x, y } = map.project(at), near = [[x - 4, y - 4], [x + 4, y + 4]]
  const inside = map.queryRenderedFeatures([x, y], { layers: [FENCES[0]] })
  const close = map.queryRenderedFeatures(near, { layers: FENCES.slice(1, 3) })
  const ids = new Set([...inside, ...close].map(one => one.properties.id))
  return [...ids].sort((a, b) => sizes.get(a) - sizes.get(b)).slice(0, LISTED)
}

/** Go to a place on the map. */
export function goTo(view) {
  if (!view) return
  const lat = value => Math.max(-85, Math.min(85, value))
  map.fitBounds([[view[0], lat(view[1])], [view[2], lat(view[3])]], { padding: 60, maxZoom: 16, duration: 700 })
}
