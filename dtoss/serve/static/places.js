// Numbers and places in words, and the shapes that they make on the map. Places are lon, lat as MapLibre has them.

const EARTH = 6371008.8
let space
/** Take what the server says of its space. */
export const placeIn = facts => { space = facts }
/** Return x and y, or longitude and latitude, as they are searched for: of a plane those of a place on the map. */
export const example = place => (space.plane ? planeOf(place) : place).map(value => +value.toPrecision(5)).join(', ')

const digits = (count, more = {}) => new Intl.NumberFormat('en', { maximumSignificantDigits: count, ...more })
export const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
export const short = digits(3)
export const compact = digits(3, { notation: 'compact' })
const long = digits(6)
export const exactly = value => long.format(value)

export function length(value, unit = space.unit) {
  if (unit !== 'm') return `${short.format(value)} ${unit}`
  return value < 1000 ? `${value.toFixed(value < 100 ? 1 : 0)} m` : `${short.format(value / 1000)} km`
}

export function area(value) {
  if (space.unit !== 'm') return `${short.format(value)} ${space.unit}²`
  return value < 1e6 ? `${whole.format(value)} m²` : `${short.format(value / 1e6)} km²`
}

export function age(seconds) {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`
}

const two = number => String(Math.floor(number)).padStart(2, '0')
export const clock = minutes => `${two(minutes / 60 % 24)}:${two(minutes % 60)}`

const radians = degrees => degrees * Math.PI / 180
const degrees = angle => angle * 180 / Math.PI
const worldOf = ([lon, lat]) => [lon / 360 + 0.5, 0.5 - Math.asinh(Math.tan(radians(lat))) / (2 * Math.PI)]
const lonlatOf = ([x, y]) => [(x - 0.5) * 360, degrees(Math.atan(Math.sinh(Math.PI * (1 - 2 * y))))]

/** Return the place on the map of x and y as the store has them: of a plane, else lon and lat. */
export function placeOf(x, y) {
  const { plane } = space
  return plane ? lonlatOf([(x - plane.x0) / plane.side, (plane.y1 - y) / plane.side]) : [x, y]
}

/** Return x and y of a place on the map of a plane. */
function planeOf(at) {
  const [x, y] = worldOf(at), { x0, y1, side } = space.plane
  return [x0 + x * side, y1 - y * side]
}

/** Return how far two places on the map are from each other, in metres or the store's units. */
export function apart(a, b) {
  if (space.plane) {
    const [p, q] = [planeOf(a), planeOf(b)]
    return Math.hypot(p[0] - q[0], p[1] - q[1])
  }
  const h = Math.sin(radians(b[1] - a[1]) / 2) ** 2
    + Math.cos(radians(a[1])) * Math.cos(radians(b[1])) * Math.sin(radians(b[0] - a[0]) / 2) ** 2
  return 2 * EARTH * Math.asin(Math.min(1, Math.sqrt(h)))
}

/** Return the places that lie a distance from one, all around. */
export function ringAround(centre, radius) {
  const angles = Array.from({ length: 73 }, (_, i) => i / 36 * Math.PI)
  if (space.plane) {
    const [x, y] = planeOf(centre)
    return angles.map(angle => placeOf(x + radius * Math.cos(angle), y + radius * Math.sin(angle)))
  }
  const r = radius / EARTH, [lon, lat] = centre.map(radians)
  return angles.map(angle => {
    const sine = Math.sin(lat) * Math.cos(r) + Math.cos(lat) * Math.sin(r) * Math.cos(angle)
    const east = Math.atan2(Math.sin(angle) * Math.sin(r) * Math.cos(lat), Math.cos(r) - Math.sin(lat) * sine)
    return [degrees(lon + east), degrees(Math.asin(sine))]
  })
}

const vectorOf = ([lon, lat]) => {
  const [x, y] = [radians(lon), radians(lat)]
  return [Math.cos(y) * Math.cos(x), Math.cos(y) * Math.sin(x), Math.sin(y)]
}

/** Return the place in the middle of many on the globe, each as heavy as its weight, not too near to a pole. */
export function middleOf(places, weights) {
  const sum = [0, 0, 0]
  places.forEach((place, i) => {
    if (place) vectorOf(place).forEach((value, n) => { sum[n] += value * weights[i] })
  })
  const lat = degrees(Math.atan2(sum[2], Math.hypot(sum[0], sum[1])))
  return [degrees(Math.atan2(sum[1], sum[0])), Math.max(-40, Math.min(40, lat))]
}

/** Return the zoom at which a globe fills 84 % of a window, seen from one and a half heights of it away. */
export function globeZoom(width, height, lat) {
  const seen = 0.42 * Math.min(width, height), share = seen / (1.5 * height)
  return Math.log2(2 * Math.PI * seen * (share + Math.hypot(share, 1)) * Math.cos(radians(lat)) / 512)
}

/** Return the shortest line from one place to another: a great circle, or straight in a plane. */
export function shortest(a, b) {
  const near = [b[0] + 360 * Math.round((a[0] - b[0]) / 360), b[1]]
  const wide = space.metric === 'sphere' ? apart(a, b) / EARTH : 0
  if (wide < 0.01) return [a, near]
  const [p, q] = [vectorOf(a), vectorOf(b)], steps = Math.ceil(wide / 0.02)
  let before = a[0]
  return Array.from({ length: steps + 1 }, (_, i) => {
    const [s, t] = [Math.sin((1 - i / steps) * wide), Math.sin(i / steps * wide)]
    const [x, y, z] = p.map((value, n) => s * value + t * q[n])
    const lon = degrees(Math.atan2(y, x))
    before = lon + 360 * Math.round((before - lon) / 360)
    return [before, degrees(Math.atan2(z, Math.hypot(x, y)))]
  })
}

/** Say where a place is, as exactly as it can be seen at a zoom. */
export function placeText([lon, lat], zoom) {
  if (space.plane) {
    const [x, y] = planeOf([lon, lat])
    return `x ${exactly(x)}, y ${exactly(y)}`
  }
  const count = Math.min(6, Math.max(1, Math.round(zoom / 3 + 1)))
  const turned = ((lon + 540) % 360 + 360) % 360 - 180
  return `${Math.abs(turned).toFixed(count)}° ${turned < 0 ? 'W' : 'E'}, ${Math.abs(lat).toFixed(count)}° ${lat < 0 ? 'S' : 'N'}`
}

/** Return a round number near another: 1, 2, 5, 10 and so on. */
export function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value)), share = value / power
  return power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10)
}

/** Return lines at round coordinates through what is seen, each a list of places. */
export function graticule(bounds, zoom) {
  const lines = [], first = (value, gap) => Math.ceil(value / gap) * gap
  if (space.plane) {
    const inside = ([lon, lat]) => [Math.max(-180, Math.min(180, lon)), Math.max(-85.05, Math.min(85.05, lat))]
    const [w, n] = planeOf(inside(bounds.getNorthWest().toArray())), [e, s] = planeOf(inside(bounds.getSouthEast().toArray()))
    const gap = nice((e - w) / 6)
    for (let x = first(w, gap); x <= e; x += gap) lines.push([placeOf(x, s), placeOf(x, n)])
    for (let y = first(s, gap); y <= n; y += gap) lines.push([placeOf(w, y), placeOf(e, y)])
    return lines
  }
  const far = zoom < 5, wide = bounds.getEast() - bounds.getWest(), gap = far ? (zoom < 2.5 ? 30 : 10) : nice(wide / 6)
  const [w, e, s, n] = far ? [-180, 180, -85, 85] : [bounds.getWest(), bounds.getEast(), bounds.getSouth(), bounds.getNorth()]
  for (let lon = first(w, gap); lon <= e && !(far && lon >= 180); lon += gap) lines.push([[lon, s], [lon, n]])
  const middle = far ? [(w + e) / 2] : []
  for (let lat = first(s, gap); lat <= n; lat += gap) lines.push([w, ...middle, e].map(lon => [lon, lat]))
  return lines
}
