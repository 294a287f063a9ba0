// The ground under the map, of a file of the server's or of another origin: pictures, or vector tiles in a plain style.

import { $, make } from './elements.js'
import { byZoom, collection } from './style.js'

export const GROUND = 'basemap'
const AREA = 'basemap-area', FONT = ['system-ui', 'sans-serif']

/**
 * Layers of vector tiles by what they are, as Protomaps, OpenMapTiles and Shortbread call them. A file that
 * has none of these is drawn as plain lines.
 */
const OF = {
  cover: ['landcover', 'landuse', 'park', 'land'], water: ['water', 'ocean', 'water_polygons'],
  streams: ['water', 'waterway', 'water_lines'], buildings: ['buildings', 'building'],
  roads: ['roads', 'transportation', 'streets'], boundaries: ['boundaries', 'boundary'],
  streetNames: ['roads', 'transportation_name', 'street_labels'], places: ['places', 'place', 'place_labels'],
}
const GREEN = ['allotments', 'cemetery', 'farmland', 'forest', 'garden', 'golf_course', 'grass', 'grassland', 'heath', 'meadow',
  'national_park', 'nature_reserve', 'orchard', 'park', 'pitch', 'playground', 'protected_area', 'public_park', 'recreation_ground',
  'scrub', 'swamp', 'tree', 'vegetation', 'village_green', 'vineyard', 'wetland', 'wood']
const BUILT = ['aerodrome', 'airfield', 'airport', 'college', 'commercial', 'hospital', 'industrial', 'military', 'railway', 'residential',
  'retail', 'school', 'university', 'urban_area', 'urban']
const LARGE = ['highway', 'major_road', 'medium_road', 'motorway', 'primary', 'secondary', 'tertiary', 'trunk']
const SMALL = ['cycleway', 'footway', 'path', 'pedestrian', 'rail', 'light_rail', 'steps', 'subway', 'track', 'tram', 'transit', 'service']
const KIND = ['to-string', ['coalesce', ['get', 'kind'], ['get', 'class'], '']]
const NAME = ['to-string', ['coalesce', ['get', 'name'], ['get', 'name_en'], ['get', 'name:en'], '']]
const is = (...kinds) => ['in', KIND, ['literal', kinds.flat()]]
/** What a place is, large ones first, and how early it is named, lower first. */
const PLACES = [['country', 'region', 'state', 'city', 'capital'], ['locality', 'town']]
const RANK = ['+', ['case', is(PLACES[0]), 0, is(PLACES[1]), 20, 40], ['to-number', ['coalesce', ['get', 'rank'], ['get', 'min_zoom'], 0]]]
const shape = name => ['==', ['geometry-type'], name]
const namesIn = told => told.layers ?? Object.values(OF).flat()

/** Return the sources of a ground as the server tells of it; none without one. */
export function groundSources(told) {
  if (!told) return {}
  const { kind, minzoom, maxzoom, bounds } = told, tiles = [told.tiles.startsWith('/') ? location.origin + told.tiles : told.tiles]
  const [west, south, east, north] = bounds, ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
  const area = { type: 'Feature', properties: {}, geometry: { type: 'Polygon', coordinates: [ring] } }
  return {
    [GROUND]: { type: kind, tiles, minzoom, maxzoom, bounds, ...(kind === 'raster' && { tileSize: 256 }) },
    ...(kind === 'vector' && { [AREA]: { type: 'geojson', data: collection([area]) } }),
  }
}

/** Return what is drawn of a ground in the colours of now, from below to above. */
export function groundLayers(told, c) {
  if (!told) return []
  if (told.kind === 'raster') {
    const paint = { 'raster-saturation': -0.35, 'raster-brightness-max': c.dim, 'raster-opacity': 0.85, 'raster-fade-duration': 0 }
    return [{ id: GROUND, type: 'raster', source: GROUND, paint }]
  }
  const known = new Set(namesIn(told)), drawn = new Set(Object.values(OF).flat()), layers = []
  const add = (names, what, type, filter, paint, more = {}) => {
    for (const name of names.filter(one => known.has(one))) {
      layers.push({
        id: `${GROUND}-${what}-${name}`, type, source: GROUND, 'source-layer': name, ...(filter && { filter }), paint, ...more,
      })
    }
  }
  const fill = colour => ({ 'fill-color': colour, 'fill-antialias': false })
  const line = (colour, width, more = {}) => ({ 'line-color': colour, 'line-width': width, ...more })
  const letters = { 'text-color': c.name, 'text-halo-color': c.land, 'text-halo-width': 1.2 }
  layers.push({ id: AREA, type: 'fill', source: AREA, minzoom: told.minzoom, paint: fill(c.land) })
  add(OF.cover, 'green', 'fill', ['all', shape('Polygon'), is(GREEN)], fill(c.green))
  add(OF.cover, 'built', 'fill', ['all', shape('Polygon'), is(BUILT)], fill(c.built))
  add(OF.water, 'water', 'fill', shape('Polygon'), fill(c.water))
  add(OF.streams, 'stream', 'line', shape('LineString'), line(c.water, byZoom(8, 0.5, 14, 1.6, 18, 4)))
  add(OF.buildings, 'building', 'fill', shape('Polygon'), fill(c.building), { minzoom: 13 })
  const road = (large, small, other) => ['case', is(LARGE), large, is(SMALL), small, other]
  const width = byZoom(6, road(0.5, 0, 0), 11, road(1.4, 0.2, 0.5), 14, road(3, 0.6, 1.6), 18, road(16, 2, 9))
  const round = { layout: { 'line-cap': 'round', 'line-join': 'round' } }
  add(OF.roads, 'road', 'line', shape('LineString'), line(road(c.street, c.lane, c.lane), width), round)
  add(OF.boundaries, 'boundary', 'line', shape('LineString'), line(c.boundary, 0.9, { 'line-dasharray': [4, 3] }))
  if (!namesIn(told).some(one => drawn.has(one))) add(namesIn(told), 'line', 'line', null, line(c.street, 1))
  const text = { 'text-field': NAME, 'text-font': FONT }
  add(OF.streetNames, 'street-name', 'symbol', shape('LineString'), letters,
    { minzoom: 13, layout: { ...text, 'symbol-placement': 'line', 'text-size': 10.5 } })
  add(OF.places, 'place-name', 'symbol', ['all', shape('Point'), ['!=', NAME, '']], letters,
    { layout: { ...text, 'text-size': ['case', is(PLACES.flat()), 13, 11], 'symbol-sort-key': RANK, 'text-padding': 4 } })
  return layers
}

export const groundIds = told => groundLayers(told, {}).map(layer => layer.id)

/** Say whose the ground is, as text; links open a page of their own. */
export function credit(told, on) {
  const pieces = (told && on ? told.attribution : []).map(({ text, link }) => (
    link ? make('a', { href: link, target: '_blank', rel: 'noopener noreferrer', textContent: text }) : text))
  $('credit').replaceChildren(...pieces)
  $('credit').hidden = !pieces.length
}

/** Return what to say where another server does not give tiles of the ground. */
export const groundError = (told, error) => {
  const why = error?.status > 0 ? `says ${error.status}` : 'does not answer, or does not let this page read'
  return new Error(`The ground is missing here: ${new URL(told.tiles).host} ${why}`)
}
