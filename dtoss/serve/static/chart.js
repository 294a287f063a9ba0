// A line of one measure over time, small: a click or the arrow keys go to an end of it.

import { make } from './elements.js'

const WIDE = 290, HIGH = 96, TOP = 8
const svg = (tag, given, ...children) => {
  const made = document.createElementNS(document.querySelector('svg').namespaceURI, tag)
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value)
  made.append(...children)
  return made
}

/**
 * Return a chart of `values`, null where there is none, one for each of `ends`. `text` returns a value as text, `time`
 * an end; `at` is the end that is shown, and `go` is called with the number of another one.
 */
export function chartOf({ label, values, ends, text, time, at, go }) {
  const known = values.filter(value => value != null), most = Math.max(...known, 1e-9), last = Math.max(values.length - 1, 1)
  const x = i => +(WIDE * i / last).toFixed(1), y = value => +(HIGH - (HIGH - TOP) * value / most).toFixed(1)
  let line = '', area = '', begin = null
  values.forEach((value, i) => {
    const there = value != null
    if (there) line += `${begin == null ? 'M' : 'L'}${x(i)},${y(value)}`
    if (there && begin == null) begin = i
    if (begin != null && (!there || i === values.length - 1)) {
      const until = there ? i : i - 1, points = values.slice(begin, until + 1).map((one, n) => `${x(begin + n)},${y(one)}`)
      area += `M${x(begin)},${HIGH}L${points.join('L')}L${x(until)},${HIGH}Z`
      begin = null
    }
  })
  const place = Math.max(0, ends.indexOf(at)), mark = svg('line', { class: 'mark', y1: 0, y2: HIGH })
  const dot = svg('circle', { class: 'dot', r: 3.5 }), said = make('output', { className: 'chart-said' })
  const range = make('input', {
    type: 'range', min: 0, max: ends.length - 1, value: place, className: 'chart-range', ariaLabel: `${label}: time`,
  })
  const show = i => {
    for (const name of ['x1', 'x2']) mark.setAttribute(name, x(i))
    dot.setAttribute('cx', x(i))
    dot.setAttribute('cy', values[i] == null ? -20 : y(values[i]))
    said.textContent = `${time(ends[i])} · ${text(values[i])}`
    range.setAttribute('aria-valuetext', said.textContent)
  }
  const picture = svg('svg', { class: 'chart', viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('path', { class: 'area', d: area }), svg('path', { class: 'line', d: line }), mark, dot)
  const moved = () => { show(+range.value); go(+range.value) }
  range.oninput = moved
  picture.onclick = event => {
    const box = picture.getBoundingClientRect()
    range.value = Math.round((event.clientX - box.left) / box.width * last)
    moved()
  }
  show(place)
  const top = make('p', { className: 'ends' }, make('span', { textContent: `most ${known.length ? text(most) : 'none'}` }), said)
  const below = make('p', { className: 'ends' }, ...[ends[0], ends.at(-1)].map(end => make('span', { textContent: time(end) })))
  return make('figure', { className: 'series' }, top, picture, range, below)
}
