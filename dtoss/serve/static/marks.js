// Events of the watch as marks over the map that fade: discs, rings, dots, squares and crosses by their kind.

import { $ } from './elements.js'

/** Kinds of events in the order of their numbers, and half the width of a mark in pixels. */
const KINDS = [['enter', 4.5], ['leave', 5.5], ['inside', 2.5], ['dwell', 4.5], ['cross', 4.5]]
/** Milliseconds that a mark is seen, over which those of a second are spread, and between two pictures. */
const SEEN = 5000, SPREAD = 900, FRAME = 33, CALM = 500
const calm = matchMedia('(prefers-reduced-motion: reduce)')
let map, colours, whenGone, marks = [], frame = null, last = 0

/** Draw marks over a map; `given` returns the colours of kinds of events, `none` is called when all are gone. */
export function marksOn(made, given, none) {
  [map, colours, whenGone] = [made, given, none]
}

export const hasMarks = () => marks.length > 0

/** Add events, each [kind, longitude, latitude], of a pair with those of the other one. */
export function addMarks(events) {
  const now = performance.now(), step = calm.matches ? 0 : SPREAD / Math.max(events.length, 1)
  const order = events.map((event, i) => [(i * 7919) % events.length, event]).sort((a, b) => a[0] - b[0])
  marks.push(...order.map(([, [kind, lng, lat, ...to]], i) => ({ kind, lng, lat, to, from: now + i * step })))
  frame ??= requestAnimationFrame(draw)
}

export function clearMarks() {
  marks = []
  frame ??= requestAnimationFrame(draw)
}

function draw(now) {
  frame = null
  if (now - last >= (calm.matches ? CALM : FRAME)) {
    last = now
    marks = marks.filter(mark => now - mark.from < SEEN)
    paint(now)
    $('marks').dataset.count = marks.length
  }
  if (marks.length) frame = requestAnimationFrame(draw)
  else whenGone()
}

/** Return whether a place is on the far side of the globe: another one is seen where it would be. */
const behind = (lng, lat, seen) => Math.abs(seen.lat - lat) > 1 || Math.abs(((seen.lng - lng) % 360 + 540) % 360 - 180) > 90

function paint(now) {
  const canvas = $('marks'), { clientWidth: wide, clientHeight: high } = canvas, scale = devicePixelRatio || 1
  if (canvas.width !== Math.round(wide * scale) || canvas.height !== Math.round(high * scale)) {
    Object.assign(canvas, { width: Math.round(wide * scale), height: Math.round(high * scale) })
  }
  const pen = canvas.getContext('2d'), { halo, ...ink } = colours(), middle = map.getCenter().lng
  const globe = map.getProjection()?.type === 'globe'
  const size = Math.min(1.5, Math.max(0.8, map.getZoom() / 12))
  pen.setTransform(scale, 0, 0, scale, 0, 0)
  pen.clearRect(0, 0, wide, high)
  for (const { kind, lng, lat, to, from } of marks) {
    if (now < from) continue
    const east = lng + 360 * Math.round((middle - lng) / 360), { x, y } = map.project([east, lat])
    if (x < -9 || y < -9 || x > wide + 9 || y > high + 9 || (globe && behind(lng, lat, map.unproject([x, y])))) continue
    pen.globalAlpha = 1 - ((now - from) / SEEN) ** 2
    const [name, radius] = KINDS[kind], half = size * radius, open = name === 'leave' || name === 'cross'
    const other = to.length && map.project([to[0] + 360 * Math.round((east - to[0]) / 360), to[1]])
    if (other) Object.assign(pen, { lineWidth: 1.5, strokeStyle: ink[name] }).stroke(new Path2D(`M${x},${y}L${other.x},${other.y}`))
    pen.beginPath()
    if (name === 'dwell') pen.rect(x - half, y - half, 2 * half, 2 * half)
    else if (name === 'cross') [-half, half].forEach(way => { pen.moveTo(x - half, y - way); pen.lineTo(x + half, y + way) })
    else pen.arc(x, y, half, 0, 2 * Math.PI)
    Object.assign(pen, { lineWidth: open ? 4 : 1, strokeStyle: halo, fillStyle: ink[name] })
    pen[open ? 'stroke' : 'fill']()
    if (open) Object.assign(pen, { lineWidth: 2.2, strokeStyle: ink[name] })
    pen.stroke()
  }
}
