// What the colours of objects and of partitions mean, and how many objects are drawn.

import { coloured, colourList, make } from './elements.js'
import { spread } from './partitions.js'
import { compact, whole } from './places.js'

const part = (title, ...children) => make('div', {}, make('h2', { textContent: title }), ...children)
const note = text => make('p', { className: 'note', textContent: text })

/**
 * Say what dots mean in the colours `dots`, or what the classes of a column do; `sample` is of how many objects one is
 * drawn, `where` the condition that holds, `wrong` whether it cannot be asked.
 */
export function objectsLegend({ dots, column, classes, sample, where, wrong }) {
  const some = `Sample: 1 of ${whole.format(sample)} objects. Closer in, all of them.`
  const all = where ? 'Every object of the condition is drawn.' : 'Every object is drawn.'
  const how = note(wrong ? 'No object is drawn: the condition cannot be asked.' : sample > 1 ? some : all)
  if (wrong) return [part('Objects', how)]
  const title = column?.kind === 'time' ? `Age of ${column.name}` : column?.name
  if (column) return [part(title, colourList(classes, column.classes), how)]
  return [part('Objects on one spot', colourList(dots, ['1', '2 to 3', '4 to 15', 'more']), how)]
}

/** Say what the fills of partitions mean; nothing where they have none. */
export function partitionsLegend(measure, plan, { kinds, ramp }) {
  if (measure?.kinds) {
    const list = plan.servers, names = list.slice(0, 8).map(one => `${one.number} ${one.type ?? ''}`)
    return [part('Server', colourList(kinds, names), list.length > 8 ? note(`and ${list.length - 8} more, colours again`) : null)]
  }
  if (!measure?.values) return []
  const ends = spread(measure).map(value => make('span', { textContent: compact.format(value) }))
  return [part(`Partitions: ${measure.title}`, make('div', { className: 'ramp' }, ...ramp.map(coloured)),
    make('p', { className: 'ends' }, ...ends), measure.unit ? note(measure.unit) : null)]
}
