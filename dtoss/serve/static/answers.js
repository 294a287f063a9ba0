// Tables of answers.

import { make, table, textButton } from './elements.js'
import { length } from './places.js'

/** Return a table of objects, each with a button to `follow` it; a line of it lights what it is on the map. */
export function objectsTable(map, caption, objects, follow) {
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
