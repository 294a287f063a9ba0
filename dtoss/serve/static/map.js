// The map of an index: draws what the server tells, follows its snapshots, asks what a person points at.
//
// In this order: layers, the map, answers, questions, the panel, what is live, the link, keys.

import { ask, headers, listen, noAnswer, openReport, post } from './asking.js'
import { nearestTold, objectTold, withinTold } from './answers.js'
import { drawOn, setTool, stopDrawing } from './drawing.js'
import { GROUND, credit, groundIds, groundLayers, groundSources, groundError } from './basemap.js'
import { $, clearFailure, connection, covered, fail, fill, make, pairs, table, tell, warn } from './elements.js'
import { drawnAt, FENCES, goTo, look } from './fences.js'
import { legendOf, readingAt } from './framing.js'
import { regionAt } from './heat.js'
import { objectsLegend, partitionsLegend } from './legend.js'
import { asCount, copyLink, linkOf, readLink } from './link.js'
import { closed } from './over_time.js'
import { measuresOf, partitionColours, partitionsTable, slotNow } from './partitions.js'
import {
  age, apart, clock, compact, exactly, example, globeZoom, graticule, middleOf, nice, placeIn, placeOf, placeText, short, whole,
} from './places.js'
import { pulse, servers } from './pulse.js'
import { collection, coloursOf, feature, ground, LAYERS, sky } from './style.js'
import * as watch from './watch.js'
import * as windows from './windows.js'

const VENDOR = '/static/vendor/maplibre-gl'
const WIDE = 120, FEW = 50000, BUSY_MS = 2000
const library = import(`${VENDOR}.mjs`)

/** What a person chose to see; the link carries it. */
const see = {
  by: '', regions: 'borders', slot: null, hidden: new Set(['uncertified']), globe: null, where: '', k: 8, theme: null,
  windows: '', measure: 'none', length: '', end: null, flows: 0, span: 86400,
}
/** What is asked and asked again of each snapshot: {kind, at | circle | polygon | id}; a region is of windows. */
let asked = null
let facts, map, maplibre
let load = null, slots = new Map(), skew = 0, playing, linkTimer

const night = () => see.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')
const colours = () => coloursOf(night())
const column = () => facts.columns.find(one => one.name === see.by)
/** Return the colours of classes: kinds differ, numbers and ages take the whole scale however few they are. */
const classColours = () => {
  const { kind, classes } = column() ?? {}, { kinds, scale } = colours()
  if (!kind || kind === 'text' || kind === 'bool') return kind && kinds
  return classes.map((_, i) => scale[Math.round(i * (scale.length - 1) / Math.max(classes.length - 1, 1))])
}

/** Return the colours of objects: of ink where a fill may have those, which a ramp has on light paper alone. */
const dots = () => {
  const isRamp = see.measure !== 'none' || fills(see.regions)
  return see.regions === 'server' || (isRamp && night() === 'light') ? colours().ink : colours().dots
}
/** What layers look like: few objects are drawn larger. */
const looks = () => [{ ...colours(), dots: dots() }, classColours(), facts.objects < FEW]
const groundNow = () => groundLayers(facts.basemap, colours())

// ---- layers: what is drawn of one stays until all of the next has arrived

/** Versions of each layer that are drawn: the one that is seen, and one that arrives. */
const drawn = Object.fromEntries(Object.keys(LAYERS).map(name => [name, []]))
let versions = 0

/** Return the id of what MapLibre draws of a version. */
const idOf = (version, spec) => `${version.source}-${spec.name ?? spec.type}`

/** Draw a layer of the snapshot. */
function draw(name) {
  const told = facts.layers.find(layer => layer.name === name)
  if (!told) return
  const query = Object.entries(LAYERS[name].query?.(see) ?? {}).filter(([, value]) => value)
  const tiles = location.origin + told.path + (query.length ? `?${new URLSearchParams(query)}` : '')
  const before = drawn[name]
  if (before.at(-1)?.tiles === tiles) return
  if (before.length > 1) erase(before.pop())
  const version = { tiles, source: `${name}-${++versions}`, specs: LAYERS[name].paint(...looks()) }
  map.addSource(version.source, { type: 'vector', tiles: [tiles], minzoom: told.minzoom, maxzoom: told.maxzoom })
  for (const spec of version.specs) {
    const opacity = `${spec.type}-opacity`
    map.addLayer({
      id: idOf(version, spec), type: spec.type, source: version.source, 'source-layer': spec.of ?? name, minzoom: told.minzoom,
      ...(spec.filter && { filter: spec.filter }), ...(spec.maxzoom && { maxzoom: spec.maxzoom }),
      layout: { visibility: see.hidden.has(name) ? 'none' : 'visible' },
      paint: { ...spec.paint, [opacity]: before.length ? 0 : spec.opacity ?? 1, [`${opacity}-transition`]: { duration: 0 } },
    }, `above-${name}`)
  }
  before.push(version)
  if (name === 'regions') paintRegions()
}

function erase(version) {
  for (const spec of version.specs) map.removeLayer(idOf(version, spec))
  map.removeSource(version.source)
}

/** Show versions that have arrived, and take away those before them. The map is idle: nothing is on its way. */
function settle() {
  for (const list of Object.values(drawn)) {
    if (list.length < 2) continue
    const newest = list.at(-1)
    for (const spec of newest.specs) map.setPaintProperty(idOf(newest, spec), `${spec.type}-opacity`, spec.opacity ?? 1)
    while (list.length > 1) erase(list.shift())
  }
  const said = $('stage').dataset
  said.idle = Number(said.idle ?? 0) + 1
  said.drawn = facts.snapshot
}

/** Draw all in the colours of now. */
function repaint() {
  const c = colours()
  const paint = (id, properties) => {
    for (const [property, value] of Object.entries(properties ?? {})) map.setPaintProperty(id, property, value)
  }
  for (const [name, list] of Object.entries(drawn)) {
    for (const version of list) for (const spec of LAYERS[name].paint(...looks())) paint(idOf(version, spec), spec.paint)
  }
  for (const layer of ground(c, !facts.plane, groundNow())) paint(layer.id, layer.paint)
  watch.repaintWatch()
  windows.repaintWindows()
  paintRegions()
  legend()
}

/** Colour objects as what lies below them lets them be seen. */
function paintDots() {
  for (const spec of LAYERS.objects.paint(...looks())) {
    for (const version of drawn.objects) map.setPaintProperty(idOf(version, spec), 'circle-color', spec.paint['circle-color'])
  }
}

const measures = () => measuresOf(facts, load, slots, see.slot)

/** Colour partitions by what is chosen; tiles stay as they are. */
function paintRegions() {
  const colourOf = partitionColours(measures()[see.regions], colours())
  for (const { source } of drawn.regions) {
    for (let number = 0; number < facts.partitions; number++) {
      map.setFeatureState({ source, sourceLayer: 'regions', id: number }, { colour: colourOf(number) })
    }
  }
}

// ---- the map

/** Return whether a whole globe is the better first view. */
const isWide = ([west, south, east, north]) => east - west > WIDE || north - south > 90

function start() {
  const [west, south, east, north] = facts.view, wide = isWide(facts.view)
  see.globe ??= !facts.plane && wide
  const given = linked()
  const whole = { bounds: [[west, south], [east, north]], fitBoundsOptions: { padding: 40, maxZoom: 16 } }
  map = new maplibre.Map({
    container: 'map', attributionControl: false, fadeDuration: 0, validateStyle: false, maxPitch: 60, maxZoom: 22,
    renderWorldCopies: !facts.plane, canvasContextAttributes: { antialias: false },
    locale: { 'Map.Title': 'Map of the objects. Arrow keys move it, Enter asks at the cross-hair.' },
    ...(given ?? (see.globe && wide ? globeView() : whole)),
    style: {
      version: 8, projection: { type: see.globe ? 'globe' : 'mercator' }, ...(see.globe && { sky: sky(night() === 'dark') }),
      sources: {
        ...groundSources(facts.basemap),
        ...(!facts.plane && { land: { type: 'geojson', data: '/static/land.geojson', tolerance: 0.2, maxzoom: 6 } }),
        grid: { type: 'geojson', data: collection([]), maxzoom: 4, tolerance: 0 },
        answer: { type: 'geojson', data: collection([]), maxzoom: 18, tolerance: 0.1 },
      },
      layers: ground(colours(), !facts.plane, groundNow()),
    },
    transformRequest: url => (/^\/(tiles|basemap)\//.test(url.replace(location.origin, '')) ? { url, headers: headers() } : { url }),
  })
  map.on('error', event => failed(event).catch(fail))
  map.on('style.load', () => {
    for (const name of Object.keys(LAYERS)) draw(name)
    for (const name of see.hidden) setVisible(name, false)
    credit(facts.basemap, !see.hidden.has('ground'))
    grid()
    if (asked) again()
  })
  map.on('idle', () => { settle(); wholeOrSample() })
  map.on('move', () => { scale(); reading(map.getCenter().toArray()) })
  map.on('moveend', () => { grid(); link() })
  map.on('mousemove', event => reading(event.lngLat.toArray(), event.point))
  drawOn(map, { show: showDraft, restore: () => showDraft(asked ? answerFeatures : []), ask: question, point: pick })
  watch.watchOn(map, {
    colours, hidden: name => see.hidden.has(name), nearest, changed: legend, began: switches,
    follow: (id, move, at) => question({ kind: 'subscription', id, at, others: at ? drawnAt(at) : [] }, move),
    again: () => (asked?.kind === 'subscription' ? again() : null),
  })
  windows.windowsOn(map, {
    see, colours, setRegions, link, answer, show, nearest, changed: () => { paintDots(); legend() }, unit: () => facts.unit,
    token: () => ask('/snapshot'), fills: () => fills(see.regions), objects: on => { setVisible('objects', on); switches() },
    rendered: then => { map.once('render', then); map.triggerRepaint() }, moveTo: windowMoved,
    ask: (id, move) => question({ kind: 'region', id }, move), again: () => (asked?.kind === 'region' ? again() : null),
  })
}

/** Return whether partitions are filled: then windows are not, as colours have one meaning. */
const fills = name => name !== 'none' && name !== 'borders'

/** Return the side of the globe where most objects are. */
function globeView() {
  const { clientWidth, clientHeight } = $('stage'), center = middleOf(facts.regions.place, facts.regions.objects)
  return { center, zoom: globeZoom(clientWidth, clientHeight, center[1]) }
}

/** Ask again for a tile that the server was too busy or away for, or that wants another token; tell what else fails. */
async function failed({ error, sourceId, tile }) {
  const { status } = error ?? {}, isLocal = sourceId !== GROUND || facts.basemap.tiles.startsWith('/')
  if (!isLocal) throw groundError(facts.basemap, error)
  if (status === 410) return refresh()
  if (status === 0) fail(noAnswer())
  if (status === 0 && !tile) return undefined
  if (!tile || ![0, 401, 429, 503].includes(status)) {
    const problem = await error?.body?.text().then(JSON.parse).catch(() => null)
    const why = problem?.detail ?? error?.message ?? String(error)
    if (status === 400 && see.where && sourceId === drawn.objects.at(-1)?.source) return refuse(why)
    throw new Error(why)
  }
  if (status === 401) await ask('/snapshot')
  else await new Promise(done => { setTimeout(done, BUSY_MS) })
  if (map.getSource(sourceId)) map.refreshTiles(sourceId, [tile.tileID.canonical])
}

function setGlobe(on) {
  if (facts.plane) return
  see.globe = on
  map.setProjection({ type: on ? 'globe' : 'mercator' })
  map.setSky(on ? sky(night() === 'dark') : undefined)
  $('t-globe').setAttribute('aria-pressed', on)
  tell(on ? 'Globe' : 'Flat map')
  link()
}

function home() {
  const [west, south, east, north] = facts.view, upright = { bearing: 0, pitch: 0 }
  if (see.globe && isWide(facts.view)) map.easeTo({ ...globeView(), ...upright })
  else map.fitBounds([[west, south], [east, north]], { padding: 40, maxZoom: 16, duration: 600, ...upright })
}

function grid() {
  const lines = graticule(map.getBounds(), map.getZoom())
  map.getSource('grid').setData(collection(lines.map(points => feature('grid', 'LineString', points))))
}

function scale() {
  const { clientWidth, clientHeight } = map.getContainer(), at = x => map.unproject([x, clientHeight / 2]).toArray()
  const wide = apart(at(clientWidth / 2 - 40), at(clientWidth / 2 + 40)), round = nice(wide * 0.8)
  $('scale').style.width = `${Math.min(160, 80 * round / wide)}px`
  const metres = round < 1000 ? `${round} m` : `${whole.format(round / 1000)} km`
  $('scale').firstElementChild.textContent = facts.plane ? `${short.format(round)} ${facts.unit}` : metres
}

let readingFrame
/** Say which place lies under the pointer or the cross-hair, and in which partition. */
function reading(at, point) {
  cancelAnimationFrame(readingFrame)
  readingFrame = requestAnimationFrame(() => {
    const layer = drawn.regions[0] && idOf(drawn.regions[0], { type: 'fill' })
    const found = layer && map.getLayer(layer) && point ? map.queryRenderedFeatures(point, { layers: [layer] })[0] : null
    const number = found?.properties.partition, value = measures()[see.regions]?.values?.[number]
    const partition = number == null ? '' : ` · partition ${number}${value != null ? `: ${exactly(value)}` : ''}`
    $('reading').textContent = placeText(at, map.getZoom()) + (readingAt(point) || partition)
  })
}

// ---- answers

let answerFeatures = [], track = []
const showDraft = features => map.getSource('answer')?.setData(collection(features))
function show(features) {
  answerFeatures = features
  showDraft(features)
}

function answer(title, ...children) {
  clearFailure()
  $('answer-title').textContent = title
  $('answer-body').replaceChildren(...children.filter(Boolean))
  $('answer').hidden = false
  tell(title)
}

function closeAnswer() {
  asked = null
  closed()
  track = []
  show([])
  $('answer').hidden = true
  link()
}

function showAnswer({ features, title, parts }) {
  show(features)
  answer(title, ...parts)
}

function showObject(told, move) {
  const last = track.at(-1)
  if (!last || last[0] !== told.at[0] || last[1] !== told.at[1]) track.push(told.at)
  track = track.slice(-200)
  showAnswer(objectTold(map, told, track, facts.plane, follow))
  if (!move && map.getBounds().contains(told.at)) return
  map.easeTo({ center: told.at, zoom: move ? Math.max(map.getZoom(), 15) : map.getZoom(), duration: 500 })
}

function showSubscription(one, { others = [], at }, move) {
  const { features, parts } = watch.subscriptionTold(one, others, at)
  show(at ? [...features, feature('place', 'Point', at)] : features)
  answer(`Subscription ${one.id}`, ...parts)
  if (move) goTo(one.view)
  if (move && $('panel').hasAttribute('data-open')) $('menu').click()
}

/** Bring a region into view, and the map in front of the panel. */
function windowMoved(at) {
  if (at && !map.getBounds().contains(at)) map.easeTo({ center: at, duration: 500 })
  if ($('panel').hasAttribute('data-open')) $('menu').click()
}

// ---- questions

let stopAsking = new AbortController()
/** Ask what is asked, of the snapshot of now. */
async function again(move = false) {
  stopAsking.abort()
  stopAsking = new AbortController()
  if (asked.kind !== 'region') closed()
  const { kind, ...given } = asked, { signal } = stopAsking, where = see.where ? { where: see.where } : {}
  link()
  try {
    if (kind === 'nearest') {
      const query = new URLSearchParams({ lon: given.at[0], lat: given.at[1], k: see.k, ...where })
      showAnswer(nearestTold(map, await ask(`/map/nearest?${query}`, signal), see.where, follow))
    } else if (kind === 'object') {
      showObject(await ask(`/map/object?${new URLSearchParams({ id: given.id })}`, signal), move)
    } else if (kind === 'region') {
      await windows.showRegion(given.id, move, signal)
    } else if (kind === 'subscription') {
      showSubscription(await watch.subscriptionAt(given.id, map.getZoom() + 2, signal), given, move)
    } else {
      showAnswer(withinTold(map, await post('/map/within', { ...given, ...where }, signal), see.where, follow))
    }
  } catch (error) {
    if (error.status === 400 && see.where && /\bwhere\b/.test(error.message)) return refuse(error.message)
    if (given.id == null || error.status !== 404) return fail(error)
    const note = make('p', { className: 'note', textContent: 'It is looked for again in each snapshot.' })
    if (kind === 'subscription') show([])
    answer(`${given.id} is not there now`, note)
  }
}

function question(one, move) {
  asked = one
  track = []
  return again(move)
}
async function nearest(at) {
  await question({ kind: 'nearest', at: at.map(value => +value.toFixed(7)) })
  uncover(at)
}
/** Move the map where the answer covers a place. */
function uncover(at) {
  const by = map.isMoving() ? null : covered($('answer'), map.project(at))
  if (by) map.panBy(by, { duration: 200 })
}
const follow = (id, move) => question({ kind: 'object', id }, move)
/** Ask for the smallest subscription that is drawn at a place; for its region while windows are shown; for what is nearest. */
function pick(at) {
  const others = drawnAt(at), [id] = others, region = others.length ? null : regionAt(map.project(at))
  if (region != null) return question({ kind: 'region', id: region }).then(() => uncover(at))
  return others.length ? question({ kind: 'subscription', id, at, others }).then(() => uncover(at)) : nearest(at)
}

/** Follow an id, or go to a place and ask there. */
function search(text) {
  const pair = text.match(/^\s*(-?[\d.]+)\s*[,; ]\s*(-?[\d.]+)\s*$/), id = text.trim()
  if (!pair && facts.id_type === 'int64' && id && !/^[+-]?\d+$/.test(id)) {
    return fail(new Error(`${id} is no id here, as ids are whole numbers; a place is two numbers: ${exampleHere()}`))
  }
  if (!pair) return id ? follow(id, true) : null
  const at = placeOf(+pair[1], +pair[2])
  if (!(Math.abs(at[0]) <= 180 && Math.abs(at[1]) <= 90)) {
    return fail(new Error(`${text} is no place on this map: ${facts.plane ? 'x' : 'longitude'} comes first`))
  }
  map.easeTo({ center: at, zoom: Math.max(map.getZoom(), facts.plane ? 4 : 11) })
  return nearest(at)
}

let unasked = ''
/** Say beside the condition why it cannot be asked; no text where it can. */
function refuse(why) {
  unasked = why
  $('where').setAttribute('aria-invalid', Boolean(why))
  warn('where-problem', 'Not asked', why)
  legend()
}

function setWhere(text) {
  if (see.where === text.trim()) return
  see.where = text.trim()
  $('where').value = see.where
  clearFailure()
  refuse('')
  draw('objects')
  if (asked && asked.kind !== 'object') again()
  link()
}

// ---- the panel

/** Show all that a snapshot says. */
function panel() {
  const columns = facts.columns.filter(one => one.kind !== 'other' && one.classes.length)
  if (!columns.some(one => one.name === see.by)) see.by = ''
  const choices = columns.map(one => [one.name, one.kind === 'time' ? `${one.name} (age)` : one.name])
  fill($('by'), [['', 'density'], ...choices], see.by)
  if (!measures()[see.regions]) see.regions = 'borders'
  fill($('regions'), Object.entries(measures()).map(([name, { title }]) => [name, title]), see.regions)
  const names = facts.columns.map(one => one.name).join(', ')
  $('where-columns').textContent = names ? `Columns: ${names}` : 'The objects carry no columns'
  $('where').disabled = !names
  $('query').placeholder = `42 or ${exampleHere()}`
  $('report-link').hidden = !facts.report
  $('slot').max = (facts.patterns?.slots ?? 1) - 1
  warn('refused', 'A newer snapshot is refused', facts.refused)
  warn('stale', 'The plan is stale', facts.plan?.stale)
  $('regions').parentElement.hidden = $('parts').hidden = !facts.partitions  // of a token that sees some objects
  $('windows').hidden = $('rate').closest('.pulse').hidden = !facts.sums
  const { plan } = facts, cost = plan?.cost != null ? `, $${short.format(plan.cost)} a day` : ''
  const said = [
    ['snapshot', facts.snapshot], ['age', ''], ['objects', whole.format(facts.objects)],
    ...['sites', 'partitions'].filter(name => facts[name]).map(name => [name, whole.format(facts[name])]),
    ['CRS', `${facts.crs}, ${facts.metric}`], ...(plan ? [['plan', `${plan.servers.length} servers${cost}`]] : []),
  ]
  $('facts').replaceChildren(...pairs(said).childNodes)
  $('facts').querySelectorAll('dd')[1].id = 'f-age'
  $('t-globe').hidden = Boolean(facts.plane)
  $('t-globe').setAttribute('aria-pressed', Boolean(see.globe))
  table($('cycles-table'), 'Newest first', ['commit', 'at', 'updated', 'took'], facts.history.map(one => [
    one.number, String(one.time).slice(11, 19), one.updated != null ? compact.format(one.updated) : one.kind,
    one.seconds != null ? `${short.format(one.seconds)} s` : '',
  ]))
  $('cycles').hidden = !facts.history.length
  document.title = `${compact.format(facts.objects)} objects · dtoss map`
  tick()
  partsTable()
  legend()
}

const exampleHere = () => example([0, 1].map(i => (facts.view[i] + facts.view[i + 2]) / 2))

function partsTable() {
  if ($('parts').open) partitionsTable($('parts-table'), facts, measures()[see.regions], go)
}
const go = i => map.flyTo({ center: facts.regions.place[i], zoom: Math.max(map.getZoom(), 9), duration: 900 })

function tick() {
  if ($('f-age')) $('f-age').textContent = age(Date.now() / 1000 - skew - facts.made)
}

let sampled = null
/** Say whether all objects or a sample of them are drawn here. */
function wholeOrSample() {
  const version = drawn.objects.at(-1)
  if (!version || facts.sample <= 1) return
  const found = map.querySourceFeatures(version.source, { sourceLayer: 'objects', filter: ['has', 'level'] }).length > 0
  if (found !== sampled) {
    sampled = found
    legend()
  }
}

/** Say what colours mean. */
function legend() {
  const c = colours(), where = see.where, wrong = Boolean(unasked), sample = sampled === false ? 1 : facts.sample
  const objects = { dots: dots(), column: column(), classes: classColours(), sample, where, wrong }
  const parts = [
    ...legendOf(), ...(see.hidden.has('objects') ? [] : objectsLegend(objects)),
    ...partitionsLegend(measures()[see.regions], facts.plan, c), ...watch.legendOf(),
  ]
  $('legend').hidden = !parts.length
  $('legend').replaceChildren(...parts)
}

function setRegions(name) {
  see.regions = name
  if (fills(name)) windows.hide()
  $('regions').value = name
  setVisible('regions', name !== 'none')
  $('slot-row').hidden = name !== 'slot'
  if (name === 'slot') setSlot(see.slot ?? slotNow(facts.patterns))
  paintDots()
  paintRegions()
  partsTable()
}

async function setSlot(number) {
  see.slot = number
  $('slot').value = number
  const said = clock(number * facts.patterns.slot_minutes)
  $('slot-time').textContent = `${said} ${facts.patterns.time_zone ?? ''}`.trim()
  $('slot').setAttribute('aria-valuetext', said)
  try {
    if (!slots.has(number)) slots.set(number, (await ask(`/map/load?slot=${number}`)).load)
  } catch (error) { fail(error) }
  if (see.slot !== number) return
  paintRegions()
  legend()
}

function play() {
  const on = !playing
  $('play').setAttribute('aria-pressed', on)
  clearInterval(playing)
  playing = on ? setInterval(() => setSlot((see.slot + 1) % facts.patterns.slots), 120) : null
}

function setVisible(name, on) {
  see.hidden[on ? 'delete' : 'add'](name)
  const ids = (drawn[name] ?? []).flatMap(version => version.specs.map(spec => idOf(version, spec)))
  const others = { land: ['land', 'shore'], subscriptions: FENCES, ground: groundIds(facts.basemap) }
  for (const id of drawn[name] ? ids : others[name] ?? [name]) {
    if (map.getLayer(id)) map.setLayoutProperty(id, 'visibility', on ? 'visible' : 'none')
  }
  if (name === 'ground') credit(facts.basemap, on)
  watch.switched(name, on)
  legend()
  link()
}

function switches() {
  const live = watch.watched() ? [['subscriptions', 'Subscriptions'], ['events', 'Events']] : []
  const tiled = { objects: 'Objects', cells: 'Cells', uncertified: 'Uncertified cells' }, land = facts.plane ? [] : [['land', 'Land']]
  if (facts.basemap) land.push(['ground', 'Ground'])
  const names = [...facts.layers.flatMap(({ name: of }) => (tiled[of] ? [[of, tiled[of]]] : [])), ...live, ...land, ['grid', 'Grid']]
  $('switches').replaceChildren(...names.map(([name, title]) => make('label', {},
    make('input', { type: 'checkbox', checked: !see.hidden.has(name), onchange: event => setVisible(name, event.target.checked) }),
    make('span', { textContent: title }))))
}

function setTheme(name) {
  see.theme = name
  localStorage.setItem('dtoss-theme', name)
  document.documentElement.dataset.theme = name
  repaint()
  if (see.globe) map.setSky(sky(name === 'dark'))
  tell(`${name === 'dark' ? 'Dark' : 'Light'} colours`)
}

// ---- what is live: the server sends events, each with a type

const HEARD = {
  snapshot: event => {
    facts.refused = event.refused
    warn('refused', 'A newer snapshot is refused', event.refused)
    return event.snapshot !== facts.snapshot ? refresh(event.snapshot) : null
  },
  plan: ({ type, ...plan }) => {
    facts.plan = plan.servers ? plan : null
    panel()
    paintRegions()
  },
  load: event => {
    load = event
    pulse(event.requests)
    servers(facts.plan, event.servers)
    if (see.regions !== 'load') return
    paintRegions()
    legend()
    partsTable()
  },
  watch: watch.heard,
  windows: windows.heard,
}
const heard = async event => { await Promise.resolve(HEARD[event.type]?.(event)).catch(fail) }

let refreshing = null
/** Take another snapshot into view, once, however many want it. */
function refresh(name) {
  refreshing ??= refreshed(name).finally(() => { refreshing = null })
  return refreshing
}

async function refreshed(name) {
  take(await ask(name ? `/map?snapshot=${encodeURIComponent(name)}` : '/map'))
  slots = new Map()
  refuse('')
  panel()
  for (const layer of Object.keys(LAYERS)) draw(layer)
  if (see.regions === 'slot') setSlot(see.slot)
  look(0)
  if (asked) await again()
  tell(`Snapshot ${facts.snapshot}`)
}

function take(told) {
  facts = told
  placeIn(told)
  skew = Date.now() / 1000 - (told.made + told.age_seconds)
}

// ---- the link

function link() {
  clearTimeout(linkTimer)
  linkTimer = setTimeout(() => history.replaceState(null, '', linkOf(map, see, asked, facts.plane)), 200)
}

/** Take what the link says; return where it looks, if it says so. */
function linked() {
  const said = readLink(location.hash, facts.plane)
  Object.assign(see, said.see)
  asked = said.asked
  $('where').value = see.where
  $('k').value = see.k
  return said.view
}

// ---- keys and buttons

function next(select, does) {
  select.selectedIndex = (select.selectedIndex + 1) % select.options.length
  does(select.value)
  tell(`${select.labels[0].textContent} ${select.selectedOptions[0].textContent}`)
}

function setBy(name) {
  see.by = name
  draw('objects')
  legend()
  link()
}

function escape() {
  if (stopDrawing()) return
  if (!$('error').hidden) $('error').hidden = true
  else if (!$('answer').hidden) closeAnswer()
}

const KEYS = {
  '/': () => $('query').focus(), w: () => $('where').focus(), m: () => map.getCanvas().focus(), g: () => setGlobe(!see.globe),
  a: home, c: () => setTool('circle'), p: () => setTool('polygon'), r: () => next($('regions'), setRegions),
  o: () => next($('by'), setBy), v: windows.nextMeasure, '[': () => windows.step(-1), ']': () => windows.step(1),
  n: () => windows.goTo(null), t: () => setTheme(night() === 'dark' ? 'light' : 'dark'), y: () => copyLink(link),
  '?': () => $('help').showModal(), Escape: escape,
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return
  const typing = event.target.matches('input:not([type=checkbox], [type=range]), select')
  if (typing && event.key !== 'Escape') return
  if (typing) event.target.blur()
  const does = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key]
  if (!does) return
  event.preventDefault()
  does()
}

function controls() {
  const pressed = {
    't-in': () => map.zoomIn(), 't-out': () => map.zoomOut(), 't-home': home, 't-globe': KEYS.g, 't-circle': KEYS.c,
    't-polygon': KEYS.p, 't-link': KEYS.y, 't-theme': KEYS.t, 't-help': KEYS['?'], 'answer-close': closeAnswer, play,
    'report-link': event => openReport(event, facts.report).catch(fail),
  }
  for (const [id, does] of Object.entries(pressed)) $(id).onclick = does
  $('error').lastElementChild.onclick = () => { $('error').hidden = true }
  $('menu').onclick = () => $('menu').setAttribute('aria-expanded', $('panel').toggleAttribute('data-open'))
  $('search').onsubmit = event => { event.preventDefault(); search($('query').value) }
  $('condition').onsubmit = event => { event.preventDefault(); setWhere($('where').value) }
  $('where').onsearch = $('where').onchange = () => setWhere($('where').value)
  $('k').onchange = () => {
    see.k = $('k').value = asCount($('k').value)
    if (asked?.kind === 'nearest') again()
  }
  $('by').onchange = () => setBy($('by').value)
  $('regions').onchange = () => setRegions($('regions').value)
  $('slot').oninput = () => setSlot(+$('slot').value)
  $('parts').ontoggle = partsTable
  $('busiest').ontoggle = watch.busiest
  document.addEventListener('keydown', onKey)
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { if (!see.theme) repaint() })
  setInterval(tick, 1000)
}

const remembered = localStorage.getItem('dtoss-theme')
if (remembered === 'light' || remembered === 'dark') document.documentElement.dataset.theme = see.theme = remembered

try {
  const told = ask('/map')
  maplibre = await library
  maplibre.setWorkerUrl(`${VENDOR}-worker.mjs`)
  take(await told)
  start()
  switches()
  panel()
  scale()
  controls()
  if (see.regions !== 'borders') map.once('style.load', () => setRegions(see.regions))
  listen(heard, connection)
} catch (error) { fail(error) }
