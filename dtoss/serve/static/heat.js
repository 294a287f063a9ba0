// The heat map of windows: their regions on the map, the colour of each by a measure, and what colours mean.

import { short } from './places.js'
import { colourNames, drawNames } from './names.js'
import { byZoom, collection } from './style.js'

const SOURCE = 'windows', FILL = 'windows-fill', EDGE = 'windows-edge', NAMES = 'windows-name'
/** Times that a count may be that of other places, so that classes have one width. */
const WIDEST = 12
/** What each measure is called, and what is counted: as the server tells; a speed counts nothing. */
export const MEASURES = {}
export const nameMeasures = shown => Object.entries(shown).forEach(([name, [title, unit]]) => {
  MEASURES[name] = { title, unit, whole: unit !== '' }
})
/** Return the unit of a measure: a speed is in metres a second, or units of the plane. */
export const unitOf = (measure, plane, unit) => MEASURES[measure]?.unit || `${plane ? unit : 'm'}/s`
let map, colours, index = new Map(), known = []
/** The key of the region that is asked for, and the number of its feature; null is none. */
let bright = null, lit = null

/** Begin to draw on a map; `given` returns the colours of now. */
export function heatOn(made, given) {
  [map, colours] = [made, given]
  map.on('moveend', nameRegions)
}

const letters = () => [colours().label, colours().halo], isShown = () => map.getLayoutProperty(FILL, 'visibility') !== 'none'
function nameRegions() {
  if (!map.getLayer(FILL)) return
  drawNames(map, NAMES, known.map(one => ({ name: one.properties.name, fill: one.geometry?.coordinates })), letters(), !isShown())
}

/** Return the regions that are drawn, and whether that of a key is. */
export const drawnRegions = () => known
export const hasRegion = key => index.has(String(key))

/** Draw regions, each a feature with the properties key and at; none takes them away. */
export function drawRegions(features, hidden) {
  known = features
  index = new Map(features.map(({ properties }, i) => [String(properties.key), i]))
  const data = collection(features.map((one, id) => ({ ...one, id })))
  if (map.getSource(SOURCE)) {
    map.removeFeatureState({ source: SOURCE })
    map.getSource(SOURCE).setData(data)
    lit = null
    nameRegions()
    return lightRegion(bright)
  }
  map.addSource(SOURCE, { type: 'geojson', data, maxzoom: 16, tolerance: 0.2 })
  const layout = { visibility: hidden ? 'none' : 'visible' }
  map.addLayer({
    id: FILL, type: 'fill', source: SOURCE, layout,
    paint: {
      'fill-color': ['to-color', ['coalesce', ['feature-state', 'colour'], 'rgba(0,0,0,0)']], 'fill-opacity': 0.92, 'fill-antialias': false,
    },
  }, 'above-regions')
  map.addLayer({ id: EDGE, type: 'line', source: SOURCE, layout, paint: edges() }, 'above-cells')
  nameRegions()
  return lightRegion(bright)
}

/** Return what edges look like in the colours of now: that of the region that is asked for is seen. */
function edges() {
  const c = colours(), lit = (yes, no) => ['case', ['boolean', ['feature-state', 'lit'], false], yes, no]
  return { 'line-color': lit(c.place, c.border), 'line-width': byZoom(6, lit(2.5, 0.4), 14, lit(3.5, 1)), 'line-opacity': lit(1, 0.6) }
}

/** Give edges the colours of now. */
export function repaintEdges() {
  if (!map.getLayer(EDGE)) return
  for (const [name, value] of Object.entries(edges())) map.setPaintProperty(EDGE, name, value)
  colourNames(map, NAMES, letters())
}

export function showRegions(on) {
  for (const id of [FILL, EDGE, NAMES]) if (map.getLayer(id)) map.setLayoutProperty(id, 'visibility', on ? 'visible' : 'none')
}

/** Colour regions: `colourOf` returns the colour of a key, null for none. */
export function colourRegions(colourOf) {
  if (!map.getSource(SOURCE)) return
  known.forEach(({ properties }, id) => map.setFeatureState({ source: SOURCE, id }, { colour: colourOf(String(properties.key)) }))
}

/** Show which region is asked for, also of those that are drawn later; null is none. */
export function lightRegion(key) {
  bright = key
  if (!map.getSource(SOURCE)) return
  const id = key == null ? undefined : index.get(String(key))
  if (lit != null) map.setFeatureState({ source: SOURCE, id: lit }, { lit: false })
  if (id != null) map.setFeatureState({ source: SOURCE, id }, { lit: true })
  lit = id ?? null
}

/** Return the key of the region at a pixel, null where there is none, or regions are not shown. */
export function regionAt(point) {
  if (!map.getLayer(FILL) || !isShown()) return null
  const found = map.queryRenderedFeatures(point, { layers: [FILL] })[0]
  return found == null ? null : String(known[found.id].properties.key)
}

/** Return longitude and latitude of a place that stands for a region. */
export const placeOfRegion = key => known[index.get(String(key))]?.properties.at ?? null

/** Return the round number that is not above another: 1, 2 or 5 times a power of ten. */
function roundBelow(value) {
  const power = 10 ** Math.floor(Math.log10(value)), share = value / power
  return power * (share >= 5 ? 5 : share >= 2 ? 2 : 1)
}

/** Return the round number that is not below another. */
function roundAbove(value) {
  const power = 10 ** Math.floor(Math.log10(value))
  return power * [1, 2, 3, 4, 5, 6, 8, 10].find(share => share * power >= value * (1 - 1e-9))
}

/**
 * Return the lower bounds of the classes of a measure's positive values, as many as there are colours at the most.
 * Classes have one width; where a few places have far more than most, counts double or so from class to class.
 */
export function boundsOf(measure, values, classes) {
  if (!values.length) return []
  const ordered = [...values].sort((a, b) => a - b), most = ordered.at(-1), low = ordered[Math.floor(ordered.length / 10)]
  const count = MEASURES[measure].whole
  if (count && most > WIDEST * low) {
    const found = []
    for (let bound = roundBelow(most); bound >= 1 && found.length < classes; bound = roundBelow(bound / 1.9)) found.unshift(bound)
    return [1, ...found.slice(1)]
  }
  const from = count ? low : 0, wide = Math.max(roundAbove((most - from) / (classes - 1) || 1e-9), count ? 1 : 0)
  const first = Math.floor(from / wide) * wide, made = Array.from({ length: classes }, (_, i) => +(first + i * wide).toPrecision(9))
  return made.filter((bound, i) => i === 0 || bound <= most).map(bound => (count ? Math.max(bound, 1) : bound))
}

/** Return the colours of so many classes of a ramp. */
export const spreadColours = (ramp, count) => (
  Array.from({ length: count }, (_, i) => ramp[count > 1 ? Math.round(i * (ramp.length - 1) / (count - 1)) : ramp.length - 1]))

/** Return the number of the class of a value. */
export function classOf(bounds, value) {
  let found = -1
  while (found + 1 < bounds.length && value >= bounds[found + 1]) found++
  return Math.max(found, 0)
}

/** Return a value as text. */
export const valueText = (measure, value) => (
  value == null ? 'none' : MEASURES[measure]?.whole ? value.toLocaleString('en') : short.format(value))
