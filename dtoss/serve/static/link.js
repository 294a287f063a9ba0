// The link: #... says what is seen and asked, so that another person sees and asks the same.

import { $, fail, tell } from './elements.js'

const pairsOf = list => list.flatMap((value, i) => (i % 2 ? [] : [[value, list[i + 1]]]))
export const asCount = text => Math.min(100, Math.max(1, parseInt(text ?? 8, 10) || 8))
const asFlows = text => [10, 25, 50, 100].find(count => count === +text) ?? 0

/** Return the link to what is seen. */
export function linkOf(map, see, asked, plane) {
  const { lng, lat } = map.getCenter()
  const said = new URLSearchParams({ at: `${lng.toFixed(5)},${lat.toFixed(5)}`, zoom: map.getZoom().toFixed(2) })
  if (map.getBearing()) said.set('bearing', map.getBearing().toFixed(0))
  if (map.getPitch()) said.set('pitch', map.getPitch().toFixed(0))
  if (!plane) said.set('view', see.globe ? 'globe' : 'flat')
  for (const name of ['by', 'where']) if (see[name]) said.set(name, see[name])
  if (see.regions !== 'borders') said.set('regions', see.regions)
  if (see.regions === 'slot') said.set('slot', see.slot)
  if (see.k !== 8) said.set('k', see.k)
  const hidden = [...see.hidden].filter(name => name !== 'regions' && name !== 'uncertified')
  if (hidden.length) said.set('without', hidden.join(','))
  if (!see.hidden.has('uncertified')) said.set('with', 'uncertified')
  if (see.windows) said.set('windows', see.windows)
  if (see.measure !== 'none') said.set('measure', see.measure)
  if (see.length && (see.measure !== 'none' || see.flows)) said.set('length', see.length)
  if (see.end != null) said.set('end', new Date(see.end / 1000).toISOString())
  if (see.flows) said.set('flows', see.flows)
  if (see.span !== 86400) said.set('span', see.span)
  const places = asked && (asked.at ?? asked.circle ?? asked.polygon?.flat())
  if (asked) said.set(asked.kind, asked.id ?? places.map(value => +value.toFixed(6)).join(','))
  return `#${said.toString().replaceAll('%2C', ',')}`
}

/** Return what a link says: what to see, what to ask, and where it looks, null where it does not say so. */
export function readLink(hash, plane) {
  const said = new URLSearchParams(hash.slice(1)), numbers = name => said.get(name)?.split(',').map(Number) ?? []
  const without = new Set((said.get('without') ?? '').split(',').filter(Boolean))
  if (said.get('with') !== 'uncertified') without.add('uncertified')
  const see = {
    by: said.get('by') ?? '', where: said.get('where') ?? '', regions: said.get('regions') ?? 'borders', hidden: without,
    slot: said.has('slot') ? Math.max(0, parseInt(said.get('slot'), 10) || 0) : null, k: asCount(said.get('k')),
    windows: said.get('windows') ?? '', measure: said.get('measure') ?? 'none', length: said.get('length') ?? '',
    end: Date.parse(said.get('end')) * 1000 || null, flows: asFlows(said.get('flows')), span: +said.get('span') || 86400,
    ...(said.has('view') && !plane && { globe: said.get('view') === 'globe' }),
  }
  const good = (list, least) => list.length >= least && list.length % 2 === 0 && list.every(Number.isFinite)
  const [at, circle, polygon] = ['nearest', 'circle', 'polygon'].map(numbers)
  let asked = null
  if (said.has('object')) asked = { kind: 'object', id: said.get('object') }
  else if (said.has('region')) asked = { kind: 'region', id: said.get('region') }
  else if (said.has('subscription')) asked = { kind: 'subscription', id: said.get('subscription') }
  else if (good(at, 2)) asked = { kind: 'nearest', at: at.slice(0, 2) }
  else if (good(circle, 4)) asked = { kind: 'circle', circle: circle.slice(0, 4) }
  else if (good(polygon, 6)) asked = { kind: 'polygon', polygon: pairsOf(polygon) }
  const middle = numbers('at'), number = (name, other) => +said.get(name) || other
  const looks = good(middle, 2) && Math.abs(middle[1]) <= 90
  const view = { center: middle.slice(0, 2), zoom: number('zoom', 2), bearing: number('bearing', 0), pitch: number('pitch', 0) }
  return { see, asked, view: looks ? view : null }
}

/** Copy the link, once `link` has written it. */
export async function copyLink(link) {
  link()
  await new Promise(done => { setTimeout(done, 250) })
  try {
    await navigator.clipboard.writeText(location.href)
    tell('The link is copied')
    $('hint').textContent = 'The link is copied'
    $('hint').hidden = false
    setTimeout(() => { $('hint').hidden = true }, 1500)
  } catch { fail(new Error('The browser does not let the page copy: the address bar has the link')) }
}
