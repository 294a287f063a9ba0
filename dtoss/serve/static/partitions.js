// What partitions can be coloured by, and the colours.

import { table, textButton } from './elements.js'
import { clock, short } from './places.js'
import { mixed } from './style.js'

const ranked = 'coloured by rank'

/** Return by name what partitions can be coloured by: `values` or `kinds` by number, none while they are not known. */
export function measuresOf({ patterns, plan, regions }, load, slots, slot) {
  const ofDay = patterns && {
    title: 'load of the day', values: slots.get(slot), from: 0, to: patterns.peak,
    unit: `requests/s at ${clock(slot * patterns.slot_minutes)}`,
  }
  return {
    none: { title: 'not shown' },
    borders: { title: 'borders only' },
    objects: { title: 'objects', values: regions.objects, unit: ranked },
    sites: { title: 'sites', values: regions.sites, unit: ranked },
    bytes: { title: 'bytes', values: regions.bytes, unit: ranked },
    load: { title: 'load now', values: load?.partitions, from: 0, unit: 'requests/s' },
    ...(ofDay && { slot: ofDay }),
    ...(plan && { server: { title: 'server of the plan', kinds: plan.server_of } }),
  }
}

/** Return the ends of a scale. */
export function spread({ values, from, to }) {
  const known = values?.filter(Number.isFinite) ?? []
  return [from ?? Math.min(...known, Infinity), Math.max(to ?? -Infinity, ...known, (from ?? 0) + 1e-9)]
}

/** Return what gives the rank of a value among others, 0 to 1; equal ones share theirs. */
function rankOf(values) {
  const first = new Map(), last = new Map(), ordered = values.filter(Number.isFinite).sort((a, b) => a - b)
  ordered.forEach((value, i) => {
    if (!first.has(value)) first.set(value, i)
    last.set(value, i)
  })
  return value => (first.get(value) + last.get(value)) / 2 / Math.max(ordered.length - 1, 1)
}

/**
 * Return what gives the colour of a partition by its number, null where it has none. Loads are compared from zero;
 * sizes by their rank, since one partition that is far from the others would leave those all alike.
 */
export function partitionColours(measure, colours) {
  const { kinds, values, from } = measure ?? {}, [low, high] = spread(measure ?? {})
  const share = from == null ? rankOf(values ?? []) : value => (value - low) / (high - low)
  return number => {
    if (kinds?.[number] != null) return colours.kinds[kinds[number] % colours.kinds.length]
    return values?.[number] != null ? mixed(colours.ramp, share(values[number])) : null
  }
}

/** Return the slot of the day that it is now, in the patterns' time zone. */
export function slotNow({ slot_minutes: minutes, slots, time_zone: zone }) {
  const parts = new Intl.DateTimeFormat('en', { hour: 'numeric', minute: 'numeric', hourCycle: 'h23', timeZone: zone ?? 'UTC' })
  const [hour, minute] = ['hour', 'minute'].map(type => +parts.formatToParts().find(part => part.type === type).value)
  return Math.floor((hour * 60 + minute) / minutes) % slots
}

/** Show the partitions with the most of a measure, of objects where it has no numbers; `go` takes a number. */
export function partitionsTable(where, { plan, regions }, measure, go) {
  const known = Boolean(measure?.values), values = known ? measure.values : regions.objects, title = known ? measure.title : 'objects'
  const most = values.map((value, i) => [value, i]).sort((a, b) => b[0] - a[0]).slice(0, 50)
  const button = i => textButton(String(i), () => go(i), { ariaLabel: `Go to partition ${i}` })
  table(where, `By ${title}, the first ${most.length}`, ['partition', title, ...(plan ? ['server'] : [])],
    most.map(([value, i]) => [button(i), short.format(value), ...(plan ? [plan.server_of[i] ?? ''] : [])]))
}
