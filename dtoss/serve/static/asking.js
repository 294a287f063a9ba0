// Asking the server: with the token that the page has asked for, once, where one is wanted.

import { $ } from './elements.js'

export const token = () => sessionStorage.getItem('dtoss-token')
export const headers = () => (token() ? { authorization: `Bearer ${token()}` } : {})

/** What is wrong where nothing comes from the server. */
export const noAnswer = () => new Error(`${location.host} does not answer: ask again once it can be reached`)
/** Throw what `fetch` has thrown, in words that are not the browser's. */
export const away = error => { throw error instanceof TypeError ? noAnswer() : error }

/** Return an answer of the server; asks for the token where one is wanted. */
async function fetched(path, options = {}) {
  for (;;) {
    const used = token()
    const request = new Request(path, { ...options, headers: { ...options.headers, ...headers() } })
    const answer = await fetch(request).catch(away)
    if (answer.status === 401) {
      await newToken(used)
      continue
    }
    if (answer.ok) return answer
    const problem = await answer.json().catch(() => ({}))
    throw Object.assign(new Error(problem.detail ?? `the server said ${answer.status}`), { status: answer.status })
  }
}

export const ask = async (path, signal) => (await fetched(path, { signal })).json().catch(away)
export const post = async (path, body, signal) => (await fetched(path, {
  method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' }, signal,
})).json().catch(away)

/** Open the report: a pass stands for the token there, since a link sends none. */
export async function openReport(event, target) {
  if (!token()) return
  event.preventDefault()
  await post('/report/pass', {})
  location.assign(target)
}

let asking = null
/** Ask for a token once, however many requests want it. */
function newToken(refused) {
  if (refused !== token()) return Promise.resolve()
  asking ??= new Promise(done => {
    if (refused) $('token-note').textContent = 'The server does not know this token.'
    const dialog = $('token-dialog')
    dialog.oncancel = event => event.preventDefault()
    dialog.onclose = () => {
      sessionStorage.setItem('dtoss-token', $('token').value.trim())
      $('token').value = ''
      asking = null
      done()
    }
    dialog.showModal()
  })
  return asking
}

/**
 * Hear what the server sends, again and again when the connection is lost. `heard` takes each event; `state` is told
 * whether there is a connection.
 */
export async function listen(heard, state) {
  for (let pause = 1; ; pause = Math.min(pause * 2, 15)) {
    try {
      const reader = (await fetched('/live')).body.pipeThrough(new TextDecoderStream()).getReader()
      state('live', 'live')
      for (let rest = ''; ;) {
        const { value, done } = await reader.read()
        if (done) break
        const events = (rest + value).split('\n\n')
        rest = events.pop()
        pause = 1
        for (const text of events) {
          const data = text.split('\n').filter(line => line.startsWith('data:')).map(line => line.slice(5)).join('\n')
          if (data) await heard(JSON.parse(data))
        }
      }
    } catch { /* tried again below */ }
    state('lost', 'connection lost')
    await new Promise(done => { setTimeout(done, pause * 1000) })
  }
}
