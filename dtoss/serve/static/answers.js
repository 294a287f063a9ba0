// What answers say and what is drawn of them: {features, title, parts}.

import { make, pairs, table, textButton } from './elements.js'
import { area, exactly, length, placeText, shortest, whole } from './places.js'
import { feature } from './style.js'

/** Return a time of ISO 8601 as people write it; other values as they are. */
export const moment = value => (
  String(value ?? '').replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.0+)?(\.\d+?)?0*Z$/, '$1 $2$3 UTC') || value)

/** Return a table of objects, each with a button to `follow` it; a line of it lights what it is on the map. */
function objectsTable(map, caption, objects, follow) {
  const far = objects.some(one => one.distance != null), made = make('table')
  table(made, caption, far ? ['id', 'distance'] : ['id'], objects.map(one => [
    textButton(one.id, () => follow(one.id, true), { title: 'Follow' }), ...(far ? [length(one.distance)] : []),
  ]))
  const light = (id, lit) => {
    for (const one of [id, id + 1000]) map.setFeatureState({ source: 'answer', id: one }, { lit })
  }
  made.querySelectorAll('tbody tr').forEach((line, i) => {
    line.onmouseenter = line.onfocusin = () => light(i + 1, true)
    line.onmouseleave = line.onfocusout = () => light(i + 1, false)
  })
  return made
}

const condition = (where, before, otherwise = '') => (where ? `${before} ${where}` : otherwise)

export function nearestTold(map, { hits, place: { at } }, where, follow) {
  const features = [
    ...hits.flatMap((hit, i) => (hit.cell?.length ? [feature('cell', 'Polygon', hit.cell, i + 1)] : [])),
    ...hits.map((hit, i) => feature('line', 'LineString', shortest(at, hit.at), i + 1001)),
    ...hits.map(hit => feature('hit', 'Point', hit.at)), feature('place', 'Point', at),
  ]
  if (!hits.length) return { features, title: 'Nothing found here', parts: [] }
  const caption = `From ${placeText(at, map.getZoom())}${condition(where, ', where')}`
  const title = `${hits.length} nearest, the first ${length(hits[0].distance)} away`
  return { features, title, parts: [objectsTable(map, caption, hits, follow)] }
}

export function withinTold(map, told, where, follow) {
  const features = [feature('area', 'Polygon', [told.ring]), ...told.objects.map(one => feature('inside', 'Point', one.at))]
  const within = told.radius != null ? `within ${length(told.radius)}` : 'in the polygon'
  const some = told.count > told.objects.length
  const note = some ? `The first ${told.objects.length} of them${condition(where, ', where')}` : condition(where, 'Where', 'All of them')
  const title = `${whole.format(told.count)} ${told.count === 1 ? 'object' : 'objects'} ${within}`
  return { features, title, parts: told.objects.length ? [objectsTable(map, note, told.objects, follow)] : [] }
}

/** Tell of one object; `track` is where it was in the snapshots that were seen. */
export function objectTold(map, told, track, plane, follow) {
  const features = [
    ...(told.cell?.length ? [feature('cell', 'Polygon', told.cell, 1)] : []),
    ...(track.length > 1 ? [feature('track', 'LineString', track)] : []), feature('place', 'Point', told.at),
  ]
  const projected = !plane && told.x !== told.at[0]
  const said = [
    ['place', placeText(told.at, map.getZoom())], ...(projected ? [['x, y', `${exactly(told.x)}, ${exactly(told.y)}`]] : []),
    ...Object.entries(told.attributes).map(([name, value]) => [name, moment(value)]),
    ...(told.area != null ? [['cell', area(told.area)]] : []),
  ]
  const near = told.neighbours ?? [], chips = near.slice(0, 60).map(id => textButton(id, () => follow(id, true)))
  const note = make('p', { className: 'note', textContent: `${near.length} neighbours` })
  const around = near.length ? [make('div', {}, note, make('div', { className: 'chips' }, ...chips))] : []
  return { features, title: `Following ${told.id}`, parts: [pairs(said), ...around] }
}
