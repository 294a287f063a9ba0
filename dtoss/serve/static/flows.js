// The largest flows of windows as arrows over the map: each from one region to another, as wide as it has moves.

import { $ } from './elements.js'

const THIN = 1.5, WIDE = 11, BEND = 0.18, NEAR = 14, SHARE = 6
let map, colours, arrows = [], frame = null

/** Draw arrows over a map; `given` returns the colours of now. */
export function flowsOn(made, given) {
  [map, colours] = [made, given]
  for (const name of ['move', 'resize']) map.on(name, soon)
}

/** Show flows, each {from, to, moves} with places; none takes them away. */
export function drawFlows(list) {
  arrows = list
  $('flows').dataset.count = list.length
  soon()
}

export function soon() {
  frame ??= requestAnimationFrame(draw)
}

/** Return the width of an arrow in pixels. */
const widthOf = (moves, most) => THIN + (WIDE - THIN) * moves / Math.max(most, 1)

const behind = (at, seen) => Math.abs(seen.lat - at[1]) > 1 || Math.abs(((seen.lng - at[0]) % 360 + 540) % 360 - 180) > 90

function draw() {
  frame = null
  const canvas = $('flows'), { clientWidth: wide, clientHeight: high } = canvas, scale = devicePixelRatio || 1
  if (canvas.width !== Math.round(wide * scale) || canvas.height !== Math.round(high * scale)) {
    Object.assign(canvas, { width: Math.round(wide * scale), height: Math.round(high * scale) })
  }
  const pen = canvas.getContext('2d'), { flow, halo } = colours(), globe = map.getProjection()?.type === 'globe'
  pen.setTransform(scale, 0, 0, scale, 0, 0)
  pen.clearRect(0, 0, wide, high)
  const most = Math.max(...arrows.map(one => one.moves), 1), middle = map.getCenter().lng
  const at = place => map.project([place[0] + 360 * Math.round((middle - place[0]) / 360), place[1]])
  // the largest lie on top
  for (const { a, b, moves } of [...arrows].sort((one, other) => one.moves - other.moves)) {
    const from = at(a), to = at(b)
    if (globe && (behind(a, map.unproject(from)) || behind(b, map.unproject(to)))) continue
    if (Math.max(from.x, to.x) < 0 || Math.max(from.y, to.y) < 0 || Math.min(from.x, to.x) > wide || Math.min(from.y, to.y) > high) continue
    const shape = arrowOf(from, to, widthOf(moves, most))
    if (!shape) continue
    pen.globalAlpha = 0.9
    pen.fillStyle = flow
    pen.strokeStyle = halo
    pen.lineWidth = 1.5
    pen.lineJoin = 'round'
    pen.beginPath()
    shape.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)))
    pen.closePath()
    pen.stroke()
    pen.fill()
  }
}

/** Return the outline of an arrow that bends to its right, so that the one that comes back lies beside it; null if too short. */
function arrowOf(from, to, wide) {
  const dx = to.x - from.x, dy = to.y - from.y, far = Math.hypot(dx, dy)
  if (far < NEAR) return null
  // a short one is thinner, so that it still points somewhere
  const width = Math.min(wide, far / SHARE), head = Math.min(width * 1.6 + 5, far * 0.55)
  const bent = { x: (from.x + to.x) / 2 - dy * BEND, y: (from.y + to.y) / 2 + dx * BEND }
  const point = t => [0, 1].map(i => {
    const [a, b, c] = i ? [from.y, bent.y, to.y] : [from.x, bent.x, to.x]
    return (1 - t) ** 2 * a + 2 * t * (1 - t) * b + t * t * c
  })
  const across = t => {
    const x = 2 * (1 - t) * (bent.x - from.x) + 2 * t * (to.x - bent.x), y = 2 * (1 - t) * (bent.y - from.y) + 2 * t * (to.y - bent.y)
    const size = Math.hypot(x, y) || 1
    return [-y / size, x / size]
  }
  const neck = 1 - head / far, left = [], right = []
  for (let i = 0; i <= 14; i++) {
    const t = neck * i / 14, [x, y] = point(t), [u, v] = across(t), half = width * (0.35 + 0.65 * i / 14) / 2
    left.push([x + u * half, y + v * half])
    right.unshift([x - u * half, y - v * half])
  }
  const [x, y] = point(neck), [u, v] = across(neck), half = Math.min(width * 0.9 + 3, head * 0.8)
  return [...left, [x + u * half, y + v * half], [to.x, to.y], [x - u * half, y - v * half], ...right]
}
