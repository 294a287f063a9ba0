"""Formulas of hard words and what they say, texts of such words, judged by Unicode's categories alone."""

from __future__ import annotations

import unicodedata

import numpy as np
import pyarrow as pa

import dtoss
from tests.dtoss.watch.judged_sphere import SPOTS, Box, Everywhere, random_place

LETTERS = [
    "a", "b", "and", "or", "not", "fire", "\u0130stanbul", "\u0131i", "Stra\xdfe", "STRASSE", "\ufb01re",
    "\uff46\uff49\uff52\uff45", "\xe9", "e\u0301", "\u0301a", "a\u0338", "\u65e5\u672c\u8a9e", "\uc548\ub155",
    "\u1112\u1161\u11ab", "\u0663", "3", "\xbd", "x\xb2", "\U0001f600", "\U0001f469\u200d\U0001f692", "na\xefve",
    "\u2014a", "a\xa0b", "\u01f0", "\u0149", "\xdf", "\u017f", "K", "\u0345", "a_b", "c'd", "x" * 300,
    "\U0001d518\U0001d52b", "\u01c4", "\u338f", "\u0345\u03b1", "\u0391\u03a3", "\u03b1\u03c2", "\u200b", "a\u200bb",
    "\xad", "=\u0338", "<\u0338a",
]  # fmt: skip
BREAKS = [
    " ",
    "  ",
    "-",
    ".",
    "\t",
    "\n",
    "\x00",
    "\x1f",
    "/",
    "!",
    "\u2003",
    "。",
    "",
    "=",
    "<",
    "\u0338",
    "\x7f",
    "@",
]


def words_of(text):
    """The words of a text: characters of Unicode's categories L and N, folded, and all else between them."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    out, word = [], ""
    for letter in folded:
        if unicodedata.category(letter)[0] == "L" or letter.isalnum():
            word += letter
        elif word:
            out.append(word)
            word = ""
    return [*out, word] if word else out


def random_text(rng, most=12):
    """A text of hard words and breaks."""
    return "".join(
        LETTERS[rng.integers(len(LETTERS))] + BREAKS[rng.integers(len(BREAKS)) if rng.random() < 0.4 else 0]
        for _ in range(rng.integers(most))
    )


def random_formula(rng, depth=4):
    """A formula as text, and what it says: None where it cannot be told (a word that is none)."""
    kind = rng.integers(6) if depth else 0
    if kind <= 1:
        if rng.random() < 0.2:
            said = random_text(rng, 4).replace('"', " ")
            text = f'"{said}"'
        else:
            said = LETTERS[rng.integers(len(LETTERS))]
            text = f'"{said}"' if said in ("and", "or", "not") or any(map(str.isspace, said)) else said
        words = words_of(said)
        if not words:
            return random_formula(rng, depth)
        return text, lambda held: any(held[at : at + len(words)] == words for at in range(len(held)))
    if kind == 2:
        text, says = random_formula(rng, depth - 1)
        return (f"not ({text})" if rng.random() < 0.5 or " " in text else f"not {text}"), lambda held: not says(held)
    parts = [random_formula(rng, depth - 1) for _ in range(rng.integers(2, 5))]
    sign, joined = (("and", all), ("or", any))[rng.integers(2)]
    sign = sign if rng.random() < 0.8 else sign.upper()
    flat = depth > 2 and rng.random() < 0.5 and not any(set(text) & set('()"') or " " in text for text, _ in parts)
    text = f" {sign} ".join(text if flat or ("(" not in text and " " not in text) else f"({text})" for text, _ in parts)
    return text, lambda held: joined(says(held) for _, says in parts)


def differing(seed):
    """What the library says otherwise of made messages, in lines."""
    rng = np.random.default_rng(seed)
    asked, says = [], []
    for number in range(rng.integers(1, 80)):
        text, holds = random_formula(rng, int(rng.integers(5)))
        place = (random_place(rng) if rng.random() < 0.5 else None) or Everywhere()
        if isinstance(place, Everywhere) and holds([]):
            place = Box(-180.0, -90.0, 180.0, 90.0)
        asked.append({"id": number, **place.said, "words": text})
        says.append((place, holds))
    count = int(rng.integers(60))
    positions = np.array(SPOTS)[rng.integers(len(SPOTS), size=count)]
    other = rng.random(count) < 0.5
    positions[other] = rng.uniform([-180, -90], [180, 90], (count, 2))[other]
    texts = [None if rng.random() < 0.05 else random_text(rng, int(rng.choice([3, 30, 400]))) for _ in range(count)]
    body = pa.array(texts, [pa.string(), pa.large_string(), pa.string_view()][rng.integers(3)])
    if rng.random() < 0.3 and not pa.types.is_string_view(body.type):
        body = body.dictionary_encode()
    rows = pa.table({"lon": positions[:, 0], "lat": positions[:, 1], "body": body})
    found = dtoss.subscriptions(asked, text="body").match(rows)
    pairs = list(zip(found.row.tolist(), found.subscription.tolist(), strict=True))
    if pairs != sorted(set(pairs)):
        return [f"seed {seed}: pairs are not each there once, in their order"]
    words, wrong = [words_of(text or "") for text in texts], []
    for number, (place, holds) in enumerate(says):
        within, sure, _ = place.judge(positions)
        for row in np.flatnonzero(sure).tolist():
            if (bool(within[row]) and bool(holds(words[row]))) != ((row, number) in set(pairs)):
                wrong.append(f"seed {seed}: {asked[number]!s:.300} and {texts[row]!r:.300}: {(row, number) in pairs}")
    return wrong
