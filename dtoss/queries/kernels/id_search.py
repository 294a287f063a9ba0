"""Objects by their ids: each partition's filter is asked, and its order searched where the filter lets an id pass."""

from __future__ import annotations

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import int32_at, int64_at, part_of, pointer, uint8_at, uint64_at
from dtoss.id_filter import bits_of, hash_of_number, hash_of_text, word_of

(BY_ID, OWNED, ID_VALUES, TEXT_BEGINS, ID_FILTER, FILTER_WORDS, SITE_OBJECTS, ALL_SITES) = range(8)
"""Columns of a row of int64 for each partition, one line of the cache: addresses, and how many there are."""
COLUMNS_OF_IDS = 8


@kernel
def _site_of(row, item):
    """Return the site that an object is on."""
    first = int32_at(row[SITE_OBJECTS])
    low, high = 0, row[ALL_SITES]
    while high - low > 1:
        middle = (low + high) >> 1
        if first[middle] <= item:
            low = middle
        else:
            high = middle
    return low


@kernel
def _item_of_number(row, number):
    """Return which object of a partition has an id, -1 where none has."""
    order, ids = int32_at(row[BY_ID]), int64_at(row[ID_VALUES])
    low, high = 0, row[OWNED]
    while low < high:
        middle = (low + high) >> 1
        if ids[order[middle]] < number:
            low = middle + 1
        else:
            high = middle
    if low < row[OWNED] and ids[order[low]] == number:
        return order[low]
    return -1


@kernel
def _same_until(texts, begin, size, text, at):
    """Return the first place from ``at`` on at which a text of a partition is not another, or the least size."""
    while at < size and texts[begin + at] == text[at]:
        at += 1
    return at


@kernel
def _item_of_text(row, text, size):
    """As :func:`_item_of_number`, of a text of a number of bytes."""
    order, offsets, texts = int32_at(row[BY_ID]), int64_at(row[TEXT_BEGINS]), uint8_at(row[ID_VALUES])
    low, high, same_low, same_high = 0, row[OWNED], 0, 0
    while low < high:
        middle = (low + high) >> 1
        item = order[middle]
        begin = offsets[item]
        own = offsets[item + 1] - begin
        # all texts between two begin with what both have in common with the one that is looked for
        at = _same_until(texts, begin, min(own, size), text, min(same_low, same_high))
        if at == own and at == size:
            return item
        if at == own or (at < size and texts[begin + at] < text[at]):
            low, same_low = middle + 1, at
        else:
            high, same_high = middle, at
    return -1


@kernel("UniTuple(int64, 3)(int64[:, ::1], int64)")
def place_of_number(rows, number):
    """Return partition, object and site of an id; -1 each where nobody has it.

    ``rows``: int64 (P, COLUMNS_OF_IDS): a row for each partition.
    """
    value, start = hash_of_number(number), pointer(rows)
    bits = bits_of(value)
    for p in range(rows.shape[0]):
        row = part_of(start, p * COLUMNS_OF_IDS, COLUMNS_OF_IDS)
        if row[OWNED] == 0 or uint64_at(row[ID_FILTER])[word_of(value, row[FILTER_WORDS])] & bits != bits:
            continue
        item = _item_of_number(row, number)
        if item >= 0:
            return p, item, _site_of(row, item)
    return -1, -1, -1


@kernel("UniTuple(int64, 3)(int64[:, ::1], uint8[::1])")
def place_of_text(rows, text):
    """Return partition, object and site of an id that is text, as UTF-8; else as :func:`place_of_number`."""
    start, asked = pointer(rows), pointer(text)
    value = hash_of_text(asked, 0, text.size)
    bits = bits_of(value)
    for p in range(rows.shape[0]):
        row = part_of(start, p * COLUMNS_OF_IDS, COLUMNS_OF_IDS)
        if row[OWNED] == 0 or uint64_at(row[ID_FILTER])[word_of(value, row[FILTER_WORDS])] & bits != bits:
            continue
        item = _item_of_text(row, asked, text.size)
        if item >= 0:
            return p, item, _site_of(row, item)
    return -1, -1, -1


@kernel("void(int64[:, ::1], int64[::1], int64[:, ::1])")
def places_of_numbers(rows, numbers, out):
    """Put partition and object of each of many ids into ``out``, int64 (n, 2); as :func:`place_of_number`."""
    for i in range(numbers.size):
        place = place_of_number(rows, numbers[i])
        out[i, 0], out[i, 1] = place[0], place[1]


@kernel("void(int64[:, ::1], int64[::1], uint8[::1], int64[:, ::1])")
def places_of_texts(rows, begins, texts, out):
    """As :func:`places_of_numbers`, of texts that stand one after another and begin at ``begins``, int64 (n + 1,)."""
    for i in range(begins.size - 1):
        place = place_of_text(rows, texts[begins[i] : begins[i + 1]])
        out[i, 0], out[i, 1] = place[0], place[1]
