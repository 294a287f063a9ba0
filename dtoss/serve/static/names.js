// Names of fences and zones on the map: the largest that are seen, each at a place inside of it.

import { collection } from './style.js'

/** So many names at a time, of places at least so wide on the map, of so many characters. */
const MOST = 60, WIDE = 44, LONG = 28
/** Heights of a polygon at which its widest piece is looked for. */
const HEIGHTS = [0.5, 0.35, 0.65]

/** Return the rings of the polygon with the largest box, and that box; null without one. */
export function largest(polygons) {
  let best = null
  for (const rings of polygons) {
    const box = [Infinity, Infinity, -Infinity, -Infinity]
    for (const [x, y] of rings[0]) box.splice(0, 4, Math.min(box[0], x), Math.min(box[1], y), Math.max(box[2], x), Math.max(box[3], y))
    const size = (box[2] - box[0]) * (box[3] - box[1])
    if (!best || size > best.size) best = { rings, box, size }
  }
  return best
}

/** Return the middle of the widest piece of a polygon, at half of its height where that is nearly as wide as elsewhere. */
export function insideOf({ rings, box: [, south, , north] }) {
  let best = null
  for (const share of HEIGHTS) {
    const y = south + share * (north - south), cuts = []
    for (const ring of rings) {
      for (let i = 1; i < ring.length; i++) {
        const [[a, b], [c, d]] = [ring[i - 1], ring[i]]
        if (b > y !== d > y) cuts.push(a + (y - b) / (d - b) * (c - a))
      }
    }
    cuts.sort((a, b) => a - b)
    for (let i = 1; i < cuts.length; i += 2) {
      const wide = cuts[i] - cuts[i - 1]
      if (!best || wide > best.wide * 1.2) best = { wide, at: [(cuts[i] + cuts[i - 1]) / 2, y] }
    }
  }
  return best?.at
}

/** Return the features of names, the largest place first. */
function featuresOf(map, places) {
  const pixels = 512 * 2 ** map.getZoom() / 360, [west, south, east, north] = map.getBounds().toArray().flat()
  const seen = ({ box }) => {
    const turns = 360 * Math.round((west + east - box[0] - box[2]) / 720)
    return box[0] + turns <= east && box[2] + turns >= west && box[1] <= north && box[3] >= south
  }
  const found = places.flatMap(({ name, fill }) => {
    const polygon = name == null ? null : largest(fill ?? [])
    return polygon && (polygon.box[2] - polygon.box[0]) * pixels >= WIDE && seen(polygon) ? [{ name: String(name), polygon }] : []
  })
  found.sort((a, b) => b.polygon.size - a.polygon.size)
  return found.slice(0, MOST).flatMap(({ name, polygon }, order) => {
    const at = insideOf(polygon), text = name.length > LONG ? `${name.slice(0, LONG - 1)}…` : name
    return at ? [{ type: 'Feature', properties: { text, order }, geometry: { type: 'Point', coordinates: at } }] : []
  })
}

/**
 * Draw names of places, each {name, fill} with the coordinates of a MultiPolygon, as the layer and source `id`, in the
 * colours of letters and round them. Where there is no room for all the larger places have theirs.
 */
export function drawNames(map, id, places, colours, hidden) {
  if (!map.getSource(id)) {
    map.addSource(id, { type: 'geojson', data: collection([]) })
    const layout = {
      'text-field': ['get', 'text'], 'text-font': ['system-ui', 'sans-serif'], 'text-size': 12, 'text-max-width': 9,
      'text-padding': 3, 'symbol-sort-key': ['get', 'order'], visibility: hidden ? 'none' : 'visible',
    }
    map.addLayer({ id, type: 'symbol', source: id, layout }, 'a-area')
    colourNames(map, id, colours)
  }
  const features = featuresOf(map, places)
  map.getSource(id).setData(collection(features))
  map.getContainer().setAttribute(`data-${id}`, features.length)
}

export function colourNames(map, id, [letters, halo]) {
  if (!map.getLayer(id)) return
  const paint = { 'text-color': letters, 'text-halo-color': halo, 'text-halo-width': 1.6 }
  for (const [name, value] of Object.entries(paint)) map.setPaintProperty(id, name, value)
}
