// What the map looks like: colours, light and dark; the layers, each one object here and one route of the server.

/** Colours of the map, light and dark. Scales grow darker or brighter steadily; kinds are those of Okabe and Ito. */
const COLOURS = {
  light: {
    water: '#dde6ee', land: '#f9f8f4', shore: '#b9c6d2', grid: 'rgba(50,75,105,0.13)', border: 'rgba(40,60,90,0.55)',
    cell: 'rgba(30,60,110,0.4)', doubt: '#b3541e', label: '#33475c', halo: '#ffffff', answer: '#0a5f9e', place: '#c2185b',
    dots: ['rgba(36,84,160,0.7)', 'rgba(30,70,145,0.8)', 'rgba(22,52,120,0.9)', '#0b1f57'], glow: 'rgba(40,90,180,0.16)',
    scale: ['#440154', '#46307e', '#365c8d', '#277f8e', '#1fa187', '#3fb56b', '#76c94f', '#a5b81e'],
    ink: ['rgba(10,16,26,0.55)', 'rgba(10,16,26,0.7)', 'rgba(10,16,26,0.85)', '#000000'],
    green: '#e7eedd', built: '#f3f0ea', building: '#e9e4dc', street: '#d3cabb', lane: '#dfd8cb', boundary: '#b3a4bd', name: '#5b6875',
    dim: 1,
    ramp: ['#e3eef3', '#bcdbe3', '#8fc3d1', '#5fa5bd', '#3b82a6', '#2a5f8d', '#213f70'],
    kinds: ['#0072b2', '#d55e00', '#00875f', '#b8588f', '#c98500', '#4b2e83', '#7a6a00', '#6b7280'], unknown: '#8a929c',
    fence: '#7d3c98', enter: '#00795a', leave: '#d1490a', inside: '#4a5a6c', dwell: '#0067a3', cross: '#a3195b', flow: '#c2410c',
  },
  dark: {
    water: '#0a111c', land: '#182233', shore: '#34475f', grid: 'rgba(160,190,230,0.10)', border: 'rgba(150,185,225,0.5)',
    cell: 'rgba(160,200,255,0.35)', doubt: '#ff9d5c', label: '#c9d8ea', halo: '#0a111c', answer: '#7cc4ff', place: '#ff7ab2',
    dots: ['rgba(255,178,84,0.7)', 'rgba(255,194,102,0.8)', 'rgba(255,214,140,0.95)', '#fff3d1'], glow: 'rgba(255,170,70,0.16)',
    scale: ['#3f6fb5', '#2f8a9c', '#25a18c', '#3fb877', '#74cc5a', '#a9da3c', '#d9e32f', '#fdf391'],
    ink: ['rgba(4,8,14,0.6)', 'rgba(4,8,14,0.75)', 'rgba(4,8,14,0.9)', '#000000'],
    green: '#18292c', built: '#1b2637', building: '#212e42', street: '#3a4a62', lane: '#28374c', boundary: '#5d5675', name: '#93a5bc',
    dim: 0.5,
    ramp: ['#1c3046', '#1f4a63', '#22677d', '#2f8790', '#55a896', '#93c795', '#e4e59a'],
    kinds: ['#56b4e9', '#e69f00', '#1fc39a', '#f0e442', '#e08cbb', '#f0803c', '#8b5cf6', '#b6c0cc'], unknown: '#7c8794',
    fence: '#c9a2f5', enter: '#2fe0b0', leave: '#ff7a5c', inside: '#b9c9db', dwell: '#7cc4ff', cross: '#ff7ab2', flow: '#ff9e6d',
  },
}
export const coloursOf = theme => COLOURS[theme]

/** Return the colour of a share of a ramp, 0 to 1. */
export function mixed(ramp, share) {
  const at = Math.max(0, Math.min(1, share)) * (ramp.length - 1), low = Math.min(Math.floor(at), ramp.length - 2)
  const parts = [ramp[low], ramp[low + 1]].map(text => [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16)))
  return `rgb(${parts[0].map((value, i) => Math.round(value + (parts[1][i] - value) * (at - low))).join(',')})`
}

const step = (values, input, other = values.at(-1)) => ['match', input, ...values.flatMap((value, i) => [i, value]), other]
export const byZoom = (...stops) => ['interpolate', ['linear'], ['zoom'], ...stops]

/**
 * From below to above. `paint` returns what MapLibre draws of a tile's layer `of`, or of the one of this name, in the
 * colours `c` and, of objects, `classes`; `few` of them are drawn larger. Opacities are plain numbers, since that is
 * what hides a version until it is whole. `query` is added to the route.
 */
export const LAYERS = {
  regions: {
    paint: c => [
      {
        type: 'fill', opacity: 0.72,
        paint: { 'fill-color': ['to-color', ['coalesce', ['feature-state', 'colour'], 'rgba(0,0,0,0)']], 'fill-antialias': false },
      },
      { type: 'line', of: 'borders', paint: { 'line-color': c.border, 'line-width': byZoom(0, 0.6, 6, 1, 14, 1.6) } },
    ],
  },
  cells: { paint: c => [{ type: 'line', paint: { 'line-color': c.cell, 'line-width': byZoom(10, 0.5, 16, 1) } }] },
  uncertified: {
    paint: c => [
      { type: 'line', paint: { 'line-color': c.doubt, 'line-width': byZoom(0, 0.8, 14, 1.8), 'line-dasharray': [3, 2] } },
    ],
  },
  objects: {
    query: see => ({ by: see.by, where: see.where }),
    paint: (c, classes, few) => {
      const level = ['coalesce', ['get', 'level'], 0], size = least => ['+', few ? least + 1.2 : least, ['*', 0.3, level]]
      const solid = ['let', 'c', ['to-rgba', step(classes ?? [], ['coalesce', ['get', 'class'], -1], c.unknown)],
        ['rgba', ...[0, 1, 2].map(i => ['at', i, ['var', 'c']]), step([0.6, 0.8, 0.95, 1], level)]]
      return [
        {
          type: 'circle', name: 'glow', filter: ['>=', ['coalesce', ['get', 'level'], 0], 2], maxzoom: 9,
          paint: { 'circle-color': c.glow, 'circle-radius': byZoom(0, 5, 8, 8), 'circle-blur': 1 },
        },
        {
          type: 'circle',
          paint: {
            'circle-color': classes ? solid : step(c.dots, level),
            'circle-radius': byZoom(0, size(1.1), 11, size(1.4), 14, 2.8, 18, 6),
            'circle-stroke-color': c.land, 'circle-stroke-width': byZoom(14, 0, 15.5, 0.8),
          },
        },
      ]
    },
  },
}

/** Return what MapLibre draws of subscriptions, with the opacities of what they hold and of their edges. */
export function fences(c, { fill, edge }) {
  const of = (id, is, type, paint) => ({ id: `fence-${id}`, type, source: 'fences', filter: ['==', ['get', 'is'], is], paint })
  return [
    of('fill', 'fence', 'fill', { 'fill-color': c.fence, 'fill-opacity': fill, 'fill-antialias': false }),
    of('edge', 'rim', 'line', { 'line-color': c.fence, 'line-width': byZoom(0, 0.8, 14, 1.6), 'line-opacity': edge }),
    of('point', 'point', 'circle', {
      'circle-color': c.fence, 'circle-radius': byZoom(0, 1.8, 14, 3), 'circle-opacity': 0.8, 'circle-stroke-color': c.halo,
      'circle-stroke-width': 0.5,
    }),
  ]
}

/** Zooms over which the outline of continents fades: it is up to 20 km off, so at the scale of a city it is none. */
const COARSE = [6.5, 8]
const fading = (shown, gone) => byZoom(COARSE[0], shown, COARSE[1], gone)

/** Return what lies under and over the layers: continents, the ground `under`, graticule, places, answers. */
export function ground(c, sphere, under) {
  const of = (id, is, type, paint) => (
    { id, type, source: 'answer', filter: ['in', ['get', 'is'], ['literal', is]], paint })
  const lit = (yes, no) => ['case', ['boolean', ['feature-state', 'lit'], false], yes, no]
  const mark = (id, at) => ({ id, type: 'background', layout: { visibility: at } })
  const dot = (fill, size, wide) => (
    { 'circle-radius': size, 'circle-color': fill, 'circle-stroke-color': c.halo, 'circle-stroke-width': wide })
  const line = (colour, width, more = {}) => ({ 'line-color': colour, 'line-width': width, ...more })
  const coast = (id, type, paint) => ({ id, type, source: 'land', maxzoom: COARSE[1], paint })
  return [
    {
      id: 'water', type: 'background',
      paint: { 'background-color': sphere ? fading(c.water, c.land) : c.water, 'background-color-transition': { duration: 0 } },
    },
    ...(sphere ? [coast('land', 'fill', { 'fill-color': c.land, 'fill-antialias': false, 'fill-opacity': fading(1, 0) })] : []),
    ...under, mark('above-regions', 'none'),
    // on a ground with shores of its own they would be second ones
    ...(sphere && !under.length ? [coast('shore', 'line', line(c.shore, byZoom(0, 0.6, 8, 1.2), { 'line-opacity': fading(1, 0) }))] : []),
    { id: 'grid', type: 'line', source: 'grid', paint: line(c.grid, 1) },
    mark('above-cells', 'none'), mark('above-uncertified', 'none'), mark('above-fences', 'none'), mark('above-objects', 'none'),
    of('a-area', ['area', 'fence'], 'fill', { 'fill-color': c.answer, 'fill-opacity': 0.12 }),
    of('a-cell', ['cell'], 'fill', { 'fill-color': c.answer, 'fill-opacity': lit(0.34, 0.13) }),
    of('a-edge', ['cell', 'area'], 'line', line(c.answer, 1.4)),
    of('a-rim', ['rim'], 'line', line(c.answer, 2.5)),
    of('a-line', ['line'], 'line', line(c.place, lit(3, 1.3))),
    of('a-track', ['track'], 'line', line(c.place, 1.5, { 'line-dasharray': [1, 2] })),
    of('a-inside', ['inside'], 'circle', dot(c.answer, byZoom(0, 2, 12, 2.5, 16, 5), byZoom(12, 0.5, 16, 1.5))),
    of('a-hit', ['hit'], 'circle', dot(c.answer, byZoom(0, 3.5, 16, 6), 1.5)),
    of('a-place', ['place', 'point'], 'circle', dot(c.place, 5, 2)),
  ]
}

export const sky = night => ({ 'atmosphere-blend': byZoom(0, night ? 0.5 : 0.25, 5, 0.2, 7, 0) })
export const collection = features => ({ type: 'FeatureCollection', features })
export const feature = (is, type, coordinates, id) => (
  { type: 'Feature', ...(id != null && { id }), properties: { is }, geometry: { type, coordinates } })
