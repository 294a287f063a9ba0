// The windows of the store: which, what of them, how long, now or at an end of before, and how many flows.

import { countsTold, listsTold } from './counted.js'
import { endAt, lastEnd, lengthOf, lengths, measures, moving, now, shown, stepOf, steps, timeText, usual } from './counting.js'
import { $, fill, make, tell, textButton, warn } from './elements.js'
import { flowsOn, soon } from './flows.js'
import { look, paint, rescale } from './framing.js'
import { heatOn, MEASURES, nameMeasures, repaintEdges } from './heat.js'
import { outdated, regionTold } from './over_time.js'

const SPANS = [[3600, '1 hour'], [10800, '3 hours'], [86400, '1 day'], [604800, '7 days'], [2592000, '30 days']]
/** Whether objects were hidden so that regions are seen. */
let aside = false

/**
 * Begin to show windows. `hooks` are see, which has what a person chose (windows, measure, length, end, flows, span), and
 * colours(), unit(), fills(), setRegions(name), objects(on), link(), changed(), rendered(then), token(); of answers ask(key,
 * move), again(), answer(title, ...parts), show(features), nearest(at).
 */
export function windowsOn(map, hooks) {
  Object.assign(now, { hooks: { ...hooks, changed: () => { listsTold(); hooks.changed() } }, see: hooks.see })
  heatOn(map, hooks.colours)
  flowsOn(map, hooks.colours)
  const changed = {
    'w-name': value => ({ windows: value }), 'w-measure': value => ({ measure: value }), 'w-span': value => ({ span: +value }),
    'w-flows': value => ({ flows: +value }), 'w-length': value => ({ length: lengths()[+value][1] }),
  }
  for (const [id, chosen] of Object.entries(changed)) $(id).oninput = () => choose(chosen($(id).value))
  $('w-end').oninput = () => goTo(endAt(+$('w-end').value))
  $('w-back').onclick = () => step(-1)
  $('w-on').onclick = () => step(1)
  $('w-now').onclick = () => goTo(null)
  $('w-requests').onclick = () => hooks.setRegions('load')
  for (const id of ['w-regions', 'w-largest']) $(id).ontoggle = listsTold
  fill($('w-span'), SPANS, now.see.span)
}

/** Take what the server says of all windows: at once, and after each batch. */
export function heard({ windows, waiting: [waiting] = [], problem }) {
  const before = now.facts
  for (const { shown } of now.all = windows) nameMeasures(shown)
  warn('windows-problem', 'The windows cannot be read', problem)
  $('windows-none').hidden = windows.length > 0 || Boolean(problem)
  if (waiting) $('windows-none').firstElementChild.textContent = `The windows ${waiting} have no batch yet.`
  $('windows-body').hidden = !windows.length
  if (!windows.length) return
  now.facts = windows.find(one => one.name === now.see.windows) ?? windows[0]
  controls()
  countsTold()
  if (before?.name !== now.facts.name || before.batch !== now.facts.batch) look(seen, 0)
  if (!before) now.hooks.again()
}

const seen = () => (outdated() ? now.hooks.again() : null)

/** Hide the heat map: the map has another one. */
export function hide() {
  aside = false
  if (shown()) choose({ measure: 'none' })
}

/** Give all the colours of now. */
export function repaintWindows() {
  if (!now.facts) return
  repaintEdges()
  paint()
  soon()
}

/** Take a choice and show it. */
function choose(given) {
  const before = now.see.measure
  Object.assign(now.see, given)
  if (given.windows) now.facts = now.all.find(one => one.name === given.windows)
  if (given.windows || given.measure || given.length) rescale()
  if (given.measure && (before === 'none') !== (given.measure === 'none')) alone(given.measure !== 'none')
  if (given.windows) countsTold()
  controls()
  look(seen)
  now.hooks.link()
  if (given.windows || given.measure || given.length || given.span) now.hooks.again()
}

/** Leave the map to windows, without objects and fills of partitions; or show objects again that were hidden so. */
function alone(on) {
  const { hooks, see } = now
  if (on && hooks.fills()) hooks.setRegions('borders')
  if (on ? see.hidden.has('objects') : !aside) return
  aside = on
  hooks.objects(!on)
}

/** Show another end; null is the newest, and follows. */
export function goTo(end) {
  if (!now.facts || lastEnd() == null) return
  const { facts, see } = now
  see.end = end != null && end >= lastEnd() ? null : end
  if (see.end != null && !facts.lengths.includes(see.length)) {
    see.length = facts.lengths[facts.lengths_us.findIndex(us => us >= lengthOf(see.length))] ?? facts.lengths.at(-1)
    tell(`Of before only ${facts.lengths.join(', ')} are kept`)
  }
  controls()
  look(seen)
  now.hooks.link()
}

export const step = by => (now.facts && lastEnd() != null ? goTo((now.see.end ?? lastEnd()) + by * now.facts.slide_us) : null)

export function nextMeasure() {
  if (!now.facts) return
  const names = ['none', ...measures()], { see } = now
  choose({ measure: names[(names.indexOf(see.measure) + 1) % names.length] })
  tell(see.measure === 'none' ? 'Windows are not shown' : `Regions by ${MEASURES[see.measure].title}`)
}

/** Show what is chosen in the controls. */
function controls() {
  const { all, facts, see } = now, last = lastEnd(), off = see.measure === 'none' && !see.flows
  if (see.measure !== 'none' && !measures().includes(see.measure)) see.measure = usual()
  see.length = lengths().find(([us]) => us === lengthOf(see.length))?.[1] ?? facts.lengths[0]
  fill($('w-name'), all.map(one => [one.name, `${one.name}, by ${one.by.split(':')[0]}`]), facts.name)
  fill($('w-measure'), [['none', 'not shown'], ...measures().map(name => [name, MEASURES[name].title])], see.measure)
  const list = lengths(), said = last == null ? 'no end is due yet' : `${timeText(see.end ?? last)} UTC`
  const at = list.findIndex(([, text]) => text === see.length)
  Object.assign($('w-length'), { max: list.length - 1, value: at, disabled: list.length < 2 })
  $('w-length').setAttribute('aria-valuetext', see.length)
  $('w-length-text').textContent = see.length
  Object.assign($('w-end'), { max: steps(), value: last == null ? 0 : stepOf(see.end ?? last), disabled: last == null })
  $('w-end').setAttribute('aria-valuetext', see.end == null ? `now, ${said}` : said)
  $('w-end-text').textContent = said
  $('w-back').disabled = last == null
  $('w-on').disabled = see.end == null
  $('w-now').setAttribute('aria-pressed', see.end == null)
  $('w-span').value = see.span
  $('w-flows').value = see.flows
  $('w-flows').parentElement.hidden = $('w-largest').hidden = !moving()
  for (const id of ['w-time', 'w-length-row', 'w-span-row']) $(id).hidden = off
}

/** Show one region over time as an answer; before the server has told of windows nothing: it is asked again then. */
export async function showRegion(key, move, signal) {
  if (!now.facts) return
  const { hooks } = now, { title, at, parts } = await regionTold(key, signal, goTo)
  hooks.show([])
  hooks.answer(title, ...parts, at && make('p', {}, textButton('Nearest objects here', () => hooks.nearest(at))))
  if (move) hooks.moveTo(at)
}
