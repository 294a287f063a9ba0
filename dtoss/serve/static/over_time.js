// One region over time: all of its measures at an end, and the chosen one as a line.

import { chartOf } from './chart.js'
import { lastEnd, measures, nameOf, now, shown, steps, textOf, timeText, unit, usual } from './counting.js'
import { make, pairs } from './elements.js'
import { series } from './window_answers.js'
import { lightRegion, MEASURES, placeOfRegion, valueText } from './heat.js'

const MOST_ENDS = 1500
let chart = null

/** Forget the region that was shown. */
export function closed() {
  chart = null
  lightRegion(null)
}

/** Return the first and the last end of the line: those that a person looks back over, round the one that is shown. */
function endsOf(middle) {
  const last = lastEnd(), { slide_us: slide } = now.facts, all = steps() + 1, count = Math.min(all, MOST_ENDS)
  const until = Math.min(last, Math.max(middle + Math.floor(count / 2) * slide, last - (all - count) * slide))
  return [until - (count - 1) * slide, until]
}

/** Return title, place and elements of what is said of a region; `go` takes an end, null the newest. */
export async function regionTold(key, signal, go) {
  const { facts, see } = now, measure = shown() ? see.measure : usual()
  const told = { title: `${facts.name}: region ${nameOf(key)}`, at: placeOfRegion(key) }
  const said = textContent => make('p', { className: 'note', textContent }), last = lastEnd()
  const text = name => value => `${valueText(name, value)}${value == null ? '' : ` ${unit(name)}`}`, all = make('div')
  const showAll = row => all.replaceChildren(pairs([
    ...measures().map(name => [MEASURES[name].title, text(name)(row[name] ?? (MEASURES[name].whole ? 0 : null))]),
    ['revision', `${row.revision ?? 0}${row.final ? ', final' : ''}`],
  ]))
  if (last == null) return { ...told, parts: [said('No end is due yet')] }
  if (!facts.lengths.includes(see.length)) {
    const drawn = now.frame?.length === see.length
    if (drawn) showAll(now.frame.values.get(String(key)) ?? {})
    lightRegion(key)
    chart = { made: all, batch: drawn ? facts.batch : null, end: see.end }
    return { ...told, parts: [said(`${see.length}, now. Over time ${facts.lengths.join(', ')} are kept`), all] }
  }
  const middle = see.end ?? last, [since, until] = endsOf(middle), { rows } = await series(key, since, until, signal)
  lightRegion(key)
  told.at ??= placeOfRegion(key)
  const ends = rows.map(row => Date.parse(row.end) * 1000), at = ends.includes(middle) ? middle : ends.at(-1)
  const made = chartOf({
    label: MEASURES[measure].title, values: rows.map(row => row[measure]), ends, at, time: us => timeText(us).slice(5),
    text: text(measure), go: i => { showAll(rows[i]); go(ends[i] >= lastEnd() ? null : ends[i]) },
  })
  showAll(rows[Math.max(0, ends.indexOf(at))])
  chart = { made, batch: facts.batch, end: see.end }
  const way = `${MEASURES[measure].title} in ${see.length}, each ${textOf(facts.slide_us)}; arrow keys go through time`
  return { ...told, parts: [said(way), made, all] }
}

/** Return whether the line is of an end or a batch of before, and nobody is at it. */
export const outdated = () => Boolean(chart) && (chart.batch !== now.facts.batch || chart.end !== now.see.end)
  && !chart.made.matches(':focus-within, :hover')
