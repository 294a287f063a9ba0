// What can be asked, as the server says it; with the token that the map or this page has asked for.

import { ask, token } from './asking.js'
import { $, make } from './elements.js'
import { trial } from './trying.js'

const METHODS = ['get', 'post', 'put', 'delete']

/** Return a parameter whose type stands in it, also where the text lists that by its name. */
const whole = ({ schema, ...others }, types) => ({ ...others, schema: { ...types[schema.$ref?.split('/').pop()], ...schema } })

/** Return the routes of each tag, in the order in which the text has them. */
function byTag({ paths, components }) {
  const found = new Map()
  for (const [path, methods] of Object.entries(paths)) {
    for (const method of METHODS.filter(name => methods[name])) {
      const tag = methods[method].tags?.[0] ?? 'Others'
      const parameters = methods[method].parameters.map(one => whole(one, components.schemas))
      found.set(tag, [...found.get(tag) ?? [], { path, method, ...methods[method], parameters }])
    }
  }
  return found
}

/** Make a route: a line that opens, with its parameters as a form and the answers that it gives. */
function route(given) {
  const made = make('details', { className: 'route' }, make('summary', {},
    make('span', { className: `method ${given.method}`, textContent: given.method.toUpperCase() }),
    make('code', { className: 'path', textContent: given.path }),
    make('span', { className: 'what', textContent: given.summary ?? '' }),
  ))
  made.addEventListener('toggle', () => made.append(trial(given), answers(given.responses)), { once: true })
  return made
}

const answers = responses => make('dl', { className: 'answers' }, ...Object.entries(responses).flatMap(([status, one]) => [
  make('dt', { textContent: status }),
  make('dd', { textContent: [one.description, Object.keys(one.content ?? {}).join(', ')].filter(Boolean).join(' ') }),
]))

try {
  const spec = await ask('/openapi.json')
  $('text-link').hidden = token() !== null // a link sends no token
  $('docs').replaceChildren(
    make('h1', { textContent: `${spec.info.title} ${spec.info.version}` }),
    ...spec.info.description.split('\n\n').map(text => make('p', { textContent: text })),
    ...[...byTag(spec)].map(([tag, routes]) => (
      make('section', { 'aria-label': tag }, make('h2', { textContent: tag }), ...routes.map(route)))),
  )
} catch (error) {
  $('docs').firstElementChild.textContent = error.message
}
