// How far windows are, what was counted and set aside, who counts; the regions with the most, and the largest flows.

import { measures, nameOf, now, shown, timeText, unit, valueOf } from './counting.js'
import { $, make, pairs, table, textButton } from './elements.js'
import { MEASURES, valueText } from './heat.js'
import { compact, whole } from './places.js'

const LISTED = 50

/** Show how far the windows are, and what was counted and set aside. */
export function countsTold() {
  const { counts, quarantined, watermark_us: mark, batch, workers = [] } = now.facts, number = name => whole.format(counts[name] ?? 0)
  const aside = Object.entries(quarantined).sort((a, b) => b[1] - a[1]), lost = aside.reduce((sum, [, count]) => sum + count, 0)
  $('w-facts').replaceChildren(...pairs([
    ['watermark', mark == null ? 'none yet' : `${timeText(mark)} UTC`], ['batch', whole.format(batch)],
    ['rows read', number('rows')], ['counted', number('counted')], ['duplicates', number('losers')], ['set aside', whole.format(lost)],
    ...aside.map(([reason, count]) => [`· ${reason}`, whole.format(count)]),
    ['results', `${number('results')}, ${number('revised')} revised`], ...(counts.jumps ? [['jumps', number('jumps')]] : []),
  ]).childNodes)
  const most = Math.max(...workers.map(one => one.rows), 1)
  $('w-workers').hidden = !workers.length
  $('w-workers').replaceChildren(...workers.map(one => make('li', {},
    make('span', { textContent: `worker ${one.worker}` }),
    make('span', { textContent: `${compact.format(one.rows)} rows, ${one.groups} groups` }),
    make('meter', { min: 0, max: most, value: one.rows, ariaLabel: `Rows of worker ${one.worker} in the last batch` }))))
}

/** Show the regions with the most, and the largest flows; lines do not move under a pointer or the focus. */
export function listsTold() {
  if (!now.facts) return
  const { see, frame, flows, hooks } = now, free = name => $(name).open && !$(`${name}-table`).matches(':hover, :focus-within')
  const go = (text, key) => textButton(text, () => hooks.ask(String(key), true), { title: 'Over time' })
  if (free('w-regions') && frame && measures().includes(see.measure) && shown()) {
    const rows = [...frame.values.keys()].map(key => [key, valueOf(key)]).filter(([, value]) => value != null)
    const first = rows.sort((a, b) => b[1] - a[1]).slice(0, LISTED), of = whole.format(rows.length)
    table($('w-regions-table'), `${MEASURES[see.measure].title}, the first ${first.length} of ${of}`, ['region', unit()],
      first.map(([key, value]) => [go(nameOf(key), key), valueText(see.measure, value)]))
  }
  if (free('w-largest')) {
    const list = flows?.list ?? [], none = 'No arrows are chosen, or nothing moved'
    table($('w-largest-table'), list.length ? `The first ${list.length} of ${whole.format(flows.of)}` : none, ['from → to', 'moves'],
      list.map(one => [go(`${nameOf(one.from)} → ${nameOf(one.to)}`, one.to), whole.format(one.moves)]))
  }
}
