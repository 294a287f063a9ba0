// Elements of the page: text reaches them as text nodes only.

export const $ = id => document.getElementById(id)

let errorTimer
/** Say what went wrong, as one line. */
export function fail(error) {
  if (error?.name === 'AbortError') return
  $('error').firstElementChild.textContent = error?.message ?? String(error)
  $('error').hidden = false
  clearTimeout(errorTimer)
  errorTimer = setTimeout(() => { $('error').hidden = true }, 12000)
}

/** Say no more what went wrong. */
export const clearFailure = () => { $('error').hidden = true }

/** Tell those who do not see what has happened. */
export const tell = text => { $('told').textContent = text }

/** Say what an operator should look into, or no more. */
export function warn(id, what, why) {
  $(id).hidden = !why
  $(id).textContent = why ? `${what}: ${why}` : ''
}

/** Say whether the page hears of what is new. */
export function connection(state, text) {
  $('live').dataset.state = state
  $('live').textContent = text
}

/** Make an element of properties and children; strings become text. */
export function make(tag, given = {}, ...children) {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith('on') || name in made) made[name] = value
    else made.setAttribute(name, value)
  }
  made.append(...children.filter(child => child != null))
  return made
}

/** Make a button that looks like text. */
export const textButton = (text, onclick, given = {}) => (
  make('button', { type: 'button', className: 'text', textContent: text, onclick, ...given }))

/** Make a line of a table; cells after the first are numbers. */
const row = (tag, cells, given = {}) => make('tr', {}, ...cells.map((value, i) => (
  make(tag, { className: i ? 'n' : '', ...given }, value instanceof Node ? value : String(value)))))

export function table(where, caption, names, rows) {
  where.replaceChildren(
    make('caption', { textContent: caption }),
    make('thead', {}, row('th', names, { scope: 'col' })),
    make('tbody', {}, ...rows.map(cells => row('td', cells))),
  )
}

/** Make a list of names and values. */
export const pairs = (list, given = {}) => make('dl', { className: 'facts', ...given }, ...list.flatMap(([name, value]) => (
  [make('dt', { textContent: name }), make('dd', { textContent: value ?? 'none' })])))

export function fill(select, options, value) {
  select.replaceChildren(...options.map(([name, title]) => make('option', { value: name, textContent: title })))
  select.value = value
}

/** Make a list of colours and what they mean. */
export const colourList = (colours, names) => make('ul', {}, ...names.map((name, i) => (
  make('li', {}, coloured(colours[i % colours.length]), name))))

/** Make a piece of a colour. */
export function coloured(colour) {
  const piece = make('i')
  piece.style.background = colour
  return piece
}

/** Return by how many pixels, right and down, to pan so that an element covers a point no more; null where it does not. */
export function covered(element, { x, y }, margin = 56) {
  const box = element.getBoundingClientRect(), within = element.parentElement.getBoundingClientRect()
  const right = x - (box.left - within.left) + margin, down = y - (box.top - within.top) + margin
  if (element.hidden || right <= 0 || down <= 0 || y > box.bottom - within.top + margin) return null
  return box.top > within.top + margin && (down < right || box.left <= within.left) ? [0, down] : [right, 0]
}
