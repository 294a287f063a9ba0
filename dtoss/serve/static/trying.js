// A question that is tried on the page: its parameters as a form, what is sent, and what comes back.

import { away, headers } from './asking.js'
import { fill, make } from './elements.js'

const JSON_TYPE = 'application/json'
const SHOWN = 20000 // characters of an answer
const PATIENCE = 3000 // milliseconds for an answer that does not end

let fields = 0

/** Return what a value may be, in words. */
function bounds({ schema, required }) {
  const said = [required ? `${schema.type}, wanted` : schema.type]
  const wide = value => Math.abs(value) > 1e300
  if (schema.minimum !== undefined && !wide(schema.minimum)) said.push(`from ${schema.minimum}`)
  if (schema.maximum !== undefined && !wide(schema.maximum)) said.push(`to ${schema.maximum}`)
  if (schema.default !== undefined) said.push(`else ${schema.default}`)
  return said.join(', ')
}

/** Make the field of a parameter with its name and what it means. */
function field(parameter) {
  const { name, schema } = parameter
  const id = `field-${++fields}`
  const choices = schema.enum ?? (schema.type === 'boolean' ? ['true', 'false'] : null)
  const given = { id, name, required: parameter.required === true, 'aria-describedby': `${id}-note` }
  const input = make(choices ? 'select' : 'input', choices ? given : { ...given, type: 'text', autocomplete: 'off' })
  if (choices) fill(input, [['', ''], ...choices.map(one => [one, one])], '')
  return make('div', { className: 'field' },
    make('label', { htmlFor: id, textContent: name }),
    input,
    make('p', { id: `${id}-note`, className: 'note', textContent: `${parameter.description ?? ''} (${bounds(parameter)})` }),
  )
}

/** Return the path of a question with what the form says; fields that are empty are not sent. */
function target(route, form) {
  const query = new URLSearchParams()
  let path = route.path
  for (const { name, in: place } of route.parameters ?? []) {
    const value = form.elements.namedItem(name).value
    if (place === 'path') path = path.replace(`{${name}}`, () => encodeURIComponent(value))
    else if (value !== '') query.append(name, value)
  }
  return path + (query.size ? `?${query}` : '')
}

/** Return the beginning of an answer as text: of one that does not end, what has come within some seconds. */
async function beginning(answer) {
  const kind = answer.headers.get('content-type') ?? ''
  const reader = answer.body?.getReader()
  if (!reader) return ''
  const timer = setTimeout(() => reader.cancel(), PATIENCE)
  const pieces = new TextDecoder()
  let text = '', bytes = 0, ended = false
  while (text.length <= SHOWN) {
    const { value, done } = await reader.read()
    if (done) {
      ended = true
      break
    }
    bytes += value.length
    text += pieces.decode(value, { stream: true })
  }
  clearTimeout(timer)
  if (!ended) await reader.cancel()
  if (!/^text\/|json|javascript|xml/.test(kind)) return `${bytes}${ended ? '' : ' and more'} bytes of ${kind || 'no type'}`
  if (!ended) return `${text.slice(0, SHOWN)}\n… and so on`
  return /json/.test(kind) ? indented(text) : text
}

/** Return JSON with its lines indented and every digit of its numbers; as it is where a browser cannot keep them. */
function indented(text) {
  if (!JSON.rawJSON) return text
  const exact = (_, value, { source }) => (typeof value === 'number' ? JSON.rawJSON(source) : value)
  return JSON.stringify(JSON.parse(text, exact), null, 1)
}

/** Ask what the form says, and show what was sent, the status, how long it took and the answer. */
async function tried(route, form, shown) {
  const body = form.elements.namedItem('request body')?.value
  const path = target(route, form)
  const began = performance.now()
  shown.replaceChildren(make('p', { className: 'sent', textContent: `${route.method.toUpperCase()} ${path}` }))
  try {
    const answer = await fetch(path, {
      method: route.method.toUpperCase(), body,
      headers: { ...headers(), ...(body === undefined ? {} : { 'content-type': JSON_TYPE }) },
    }).catch(away)
    const took = performance.now() - began
    const text = await beginning(answer).catch(away)
    shown.append(
      make('p', { className: answer.ok ? 'good' : 'bad', textContent: `${answer.status} in ${took.toFixed(0)} ms` }),
      make('pre', { tabIndex: 0, 'aria-label': 'Answer', textContent: text }),
    )
  } catch (error) {
    shown.append(make('p', { className: 'bad', textContent: error.message }))
  }
}

/** Make the form of a route, and the place for its answer. */
export function trial(route) {
  const content = route.requestBody?.content?.[JSON_TYPE]
  const id = `field-${++fields}`
  const body = content && make('div', { className: 'field whole' },
    make('label', { htmlFor: id, textContent: 'request body' }),
    make('textarea', { id, name: 'request body', rows: 4, spellcheck: false, value: JSON.stringify(content.example ?? {}) }),
    make('p', { className: 'note', textContent: `As ${Object.keys(route.requestBody.content).join(' or ')}; here as JSON.` }),
  )
  const shown = make('div', { className: 'shown', role: 'status' })
  const form = make('form', { className: 'trial' }, ...(route.parameters ?? []).map(field), body,
    make('button', { type: 'submit', textContent: 'Ask' }))
  form.addEventListener('submit', event => {
    event.preventDefault()
    tried(route, form, shown)
  })
  return make('div', {}, form, shown)
}
