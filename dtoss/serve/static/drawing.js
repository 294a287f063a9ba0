// Drawing circles and polygons: by dragging, by clicks, and by keys at the cross-hair.

import { $, textButton } from './elements.js'
import { apart, length, ringAround } from './places.js'
import { feature } from './style.js'

/** So long after its first click the second may come that ends a polygon: it is not to zoom. */
const DOUBLE_MS = 600
/** So many pixels from its first corner a click or Enter ends a polygon. */
const CLOSE = 8
let map, hooks
let tool = null, corners = [], dragged = false

/**
 * Let a person draw on a map. `hooks.show` draws features, `hooks.restore` what was drawn before, `hooks.ask` takes
 * {kind, circle | polygon}, `hooks.point` the place that Enter or a click points at while nothing is drawn.
 */
export function drawOn(made, given) {
  [map, hooks] = [made, given]
  const press = event => {
    if (tool !== 'circle' || event.points?.length > 1) return
    event.preventDefault()
    corners = [event.lngLat.toArray()]
    dragged = true
  }
  const move = event => { if (tool && corners.length) draft(event.lngLat.toArray()) }
  const release = event => {
    const started = tool === 'circle' && dragged && corners.length === 1
    if (started && map.project(corners[0]).dist(map.project(event.lngLat)) > 4) corner(event.lngLat.toArray())
    setTimeout(() => { dragged = false })
  }
  const events = { mousedown: press, touchstart: press, mousemove: move, touchmove: move, mouseup: release, touchend: release }
  for (const [name, does] of Object.entries(events)) map.on(name, does)
  map.on('click', event => {
    if (tool === 'polygon') corner(event.lngLat.toArray())
    else if (!tool && !dragged) hooks.point(event.lngLat.wrap().toArray())
  })
  map.on('dblclick', () => { if (tool === 'polygon' && corners.length > 2) finish() })
  map.getCanvas().addEventListener('keydown', event => {
    if (event.key === 'Enter') {
      const at = map.getCenter()
      if (tool) corner(at.toArray())
      else hooks.point(at.wrap().toArray())
      event.preventDefault()
    } else if (event.key === 'Backspace' && tool) {
      corners.pop()
      draft()
    }
  })
}

/** Begin to draw a "circle" or a "polygon"; stop if that is drawn already. */
export function setTool(name) {
  tool = tool === name ? null : name
  corners = []
  for (const one of ['circle', 'polygon']) $(`t-${one}`).setAttribute('aria-pressed', tool === one)
  $('stage').toggleAttribute('data-drawing', Boolean(tool))
  map.dragPan[tool === 'circle' ? 'disable' : 'enable']()
  if (tool) map.doubleClickZoom.disable()
  else setTimeout(() => { if (!tool) map.doubleClickZoom.enable() }, DOUBLE_MS)
  if (tool) map.getCanvas().focus({ preventScroll: true })
  draft()
}

/** Stop drawing and return whether anything was drawn. */
export function stopDrawing() {
  if (tool) setTool(tool)
  else return false
  return true
}

/** Show what is drawn so far, and how to go on. */
function draft(end) {
  $('hint').hidden = !tool
  if (!tool) return hooks.restore()
  const points = end ? [...corners, end] : corners, circle = tool === 'circle' && points.length > 1
  const more = `${corners.length} corners: click the first one, double click, or `
  const polygon = corners.length < 3 ? 'Click corners, or Enter at the cross-hair' : more
  const way = tool === 'circle' ? 'Drag from the centre outwards, or Enter twice' : polygon
  $('hint').replaceChildren(circle ? `Radius ${length(apart(...points))}` : way)
  if (tool === 'polygon' && corners.length > 2) $('hint').append(textButton('finish', finish))
  const dots = points.map(point => feature('place', 'Point', point))
  if (circle) return hooks.show([feature('area', 'Polygon', [ringAround(points[0], apart(...points))]), dots[0]])
  if (points.length > 2) return hooks.show([feature('area', 'Polygon', [[...points, points[0]]]), ...dots])
  return hooks.show([...(points.length > 1 ? [feature('line', 'LineString', points)] : []), ...dots])
}

function corner(at) {
  const last = corners.at(-1)
  const closes = tool === 'polygon' && corners.length > 2 && map.project(corners[0]).dist(map.project(at)) < CLOSE
  const again = last && Math.abs(last[0] - at[0]) + Math.abs(last[1] - at[1]) < 1e-9
  if (closes || again) return tool === 'polygon' && corners.length > 2 ? finish() : undefined
  corners.push(at)
  return tool === 'circle' && corners.length === 2 ? finish() : draft()
}

function finish() {
  const kind = tool, turns = 360 * Math.round(corners[0][0] / 360), points = corners.map(([lon, lat]) => [lon - turns, lat])
  setTool(kind)
  return hooks.ask(kind === 'circle' ? { kind, circle: points.flat() } : { kind, polygon: points })
}
