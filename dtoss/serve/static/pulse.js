// What is asked of the server now: requests a second as a line, and the load of each server of the plan.

import { $, make } from './elements.js'
import { compact, short } from './places.js'

const SECONDS = 60
let rates = []

/** Show the requests a second of the last minute. */
export function pulse(requests) {
  rates = [...rates.slice(1 - SECONDS), requests]
  $('rate').textContent = short.format(requests)
  const top = Math.max(...rates, 1), left = 120 - 2 * (rates.length - 1)
  const points = rates.map((value, i) => `${left + 2 * i},${(26 - 24 * value / top).toFixed(1)}`)
  $('spark').querySelector('.line').setAttribute('d', `M${points.join('L')}`)
  $('spark').querySelector('.area').setAttribute('d', `M${points.join('L')}V28H${left}Z`)
}

/** Show the servers of a plan and what is asked of each. */
export function servers(plan, loads) {
  const of = plan?.servers ?? [], bar = { min: 0, max: 1, low: 0.7, high: 0.9, optimum: 0 }
  if ($('servers').childElementCount !== of.length) {
    $('servers').replaceChildren(...of.map(one => make('li', {},
      make('span', { textContent: `${one.number} ${one.type ?? ''}` }), make('span'),
      make('meter', { ...bar, ariaLabel: `Load of server ${one.number}` }))))
  }
  of.forEach(({ capacity }, i) => {
    const [, text, meter] = $('servers').children[i].children, rate = loads?.[i] ?? 0
    meter.value = capacity ? rate / capacity : 0
    text.textContent = capacity ? `${short.format(rate)} of ${compact.format(capacity)}/s` : `${short.format(rate)}/s`
  })
}
