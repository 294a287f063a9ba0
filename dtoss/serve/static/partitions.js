// What partitions can be coloured by, and the colours.

import { clock } from './places.js'
import { mixed } from './style.js'

/** Return by name what partitions can be coloured by: `values` or `kinds` by number, none while they are not known. */
export function measuresOf({ patterns, plan, regions }, load, slots, slot) {
  const ofDay = patterns && {
    title: 'load of the day', values: slots.get(slot), from: 0, to: patterns.peak,
    unit: `requests/s at ${clock(slot * patterns.slot_minutes)}`,
  }
  return {
    none: { title: 'not shown' },
    borders: { title: 'borders only' },
    objects: { title: 'objects', values: regions.objects },
    sites: { title: 'sites', values: regions.sites },
    bytes: { title: 'bytes', values: regions.bytes },
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

/** Return what gives the colour of a partition by its number, null where it has none. */
export function partitionColours(measure, colours) {
  const { kinds, values } = measure ?? {}, [low, high] = spread(measure ?? {})
  return number => {
    if (kinds?.[number] != null) return colours.kinds[kinds[number] % colours.kinds.length]
    return values?.[number] != null ? mixed(colours.ramp, (values[number] - low) / (high - low || 1)) : null
  }
}

/** Return the slot of the day that it is now, in the patterns' time zone. */
export function slotNow({ slot_minutes: minutes, slots, time_zone: zone }) {
  const parts = new Intl.DateTimeFormat('en', { hour: 'numeric', minute: 'numeric', hourCycle: 'h23', timeZone: zone ?? 'UTC' })
  const [hour, minute] = ['hour', 'minute'].map(type => +parts.formatToParts().find(part => part.type === type).value)
  return Math.floor((hour * 60 + minute) / minutes) % slots
}
