// What a server answers about windows: the end and length that are chosen, one region over time, of a batch or a later one.

import { away, headers } from './asking.js'
import { isoOf, now } from './counting.js'

const LATER_MS = 120, TRIES = 10

/** Return an answer; keys of more digits than numbers here can hold stay text. */
export async function ask(what, query, signal) {
  const path = `/windows/${encodeURIComponent(now.facts.name)}${what}?${new URLSearchParams(query)}`
  for (;;) {
    const answer = await fetch(path, { signal, headers: headers() }).catch(away), text = await answer.text().catch(away)
    if (answer.ok) return JSON.parse(text.replace(/"(key|from|to)":(-?\d{16,})/g, '"$1":"$2"'))
    if (answer.status === 401) {
      await now.hooks.token()
      continue
    }
    const told = answer.headers.get('content-type')?.includes('json') ? JSON.parse(text) : {}
    throw Object.assign(new Error(told.detail ?? `the server said ${answer.status}`), { status: answer.status })
  }
}

/** Return the end and the length that are chosen, as they are asked for. */
export const asked = () => ({ window: now.see.length, ...(now.see.end != null && { end: isoOf(now.see.end) }) })

/** Return one region over time, from an end to another one. */
export const series = (key, since, until, signal) => (
  newest(() => ask('/series', { key, window: now.see.length, since: isoOf(since), until: isoOf(until) }, signal), now.facts.batch))

/** Return an answer that is of a batch, or of a later one: another process of the server may look a little later. */
export async function newest(get, batch) {
  for (let i = 0; ; i++) {
    const found = await get()
    if (found.batch >= batch || i === TRIES) return found
    await new Promise(done => { setTimeout(done, LATER_MS) })
  }
}
