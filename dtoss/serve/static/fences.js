// The subscriptions of the watch on the map: those in view, as the server draws them.

import { ask } from './asking.js'
import { $, fail } from './elements.js'
import { collection, feature, fences } from './style.js'

export const FENCES = ['fence-fill', 'fence-edge', 'fence-point']
/** Milliseconds before what is in view is asked for. */
const PAUSE = 120
const LISTED = 30
let map, hooks, sizes = new Map(), timer, stop = new AbortController()
/** What the server last said of what is in view. */
export let seen = null

/** Begin to show subscriptions; `hooks` are colours(), hidden(name) and changed(). */
export function fencesOn(made, given) {
  [map, hooks] = [made, given]
  map.on('moveend', () => look())
}

/** Add the layers of subscriptions, or give them the colours of now. */
export function drawFences() {
  const specs = fences(hooks.colours()), hidden = hooks.hidden('subscriptions')
  if (!map.getSource('fences')) {
    map.addSource('fences', { type: 'geojson', data: collection([]), maxzoom: 18, tolerance: 0.2 })
    for (const spec of specs) map.addLayer({ ...spec, layout: { visibility: hidden ? 'none' : 'visible' } }, 'above-fences')
  }
  for (const spec of specs) for (const [name, value] of Object.entries(spec.paint)) map.setPaintProperty(spec.id, name, value)
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
  sizes = new Map(seen.shapes.map(shape => [shape.id, sizeOf(shape)]))
  const named = shape => featuresOf(shape).map(one => ({ ...one, properties: { ...one.properties, id: shape.id } }))
  map.getSource('fences')?.setData(collection(seen.shapes.flatMap(named)))
  $('stage').dataset.fences = `${seen.shown} of ${seen.found}`
  hooks.changed()
}

/** Return what is drawn of a subscription: what it holds, and where that ends. */
export function featuresOf({ at, fill, edges }) {
  if (at) return [feature('point', 'Point', at)]
  const lines = edges ?? fill.flat()
  return [feature('fence', 'MultiPolygon', fill), ...(lines.length ? [feature('rim', 'MultiLineString', lines)] : [])]
}

function sizeOf({ fill }) {
  const places = (fill ?? []).flat(2), of = axis => places.map(place => place[axis])
  const wide = values => values.reduce((a, b) => Math.max(a, b), -Infinity) - values.reduce((a, b) => Math.min(a, b), Infinity)
  return places.length ? wide(of(0)) * wide(of(1)) : 0
}

/** Return the ids of the subscriptions that are drawn at a place, the smallest first. */
export function drawnAt(at) {
  if (!map.getSource('fences') || hooks.hidden('subscriptions')) return []
  const { x, y } = map.project(at), near = [[x - 4, y - 4], [x + 4, y + 4]]
  const inside = map.queryRenderedFeatures([x, y], { layers: [FENCES[0]] })
  const close = map.queryRenderedFeatures(near, { layers: FENCES.slice(1) })
  const ids = new Set([...inside, ...close].map(one => one.properties.id))
  return [...ids].sort((a, b) => sizes.get(a) - sizes.get(b)).slice(0, LISTED)
}

/** Go to a place on the map. */
export function goTo(view) {
  if (!view) return
  const lat = value => Math.max(-85, Math.min(85, value))
  map.fitBounds([[view[0], lat(view[1])], [view[2], lat(view[3])]], { padding: 60, maxZoom: 16, duration: 700 })
}
