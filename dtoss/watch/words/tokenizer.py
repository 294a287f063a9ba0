"""The words of a text: the one tokeniser of messages and of what is asked."""

from __future__ import annotations

import re
import unicodedata

_RUN = re.compile(r"[^\W_]+")
"""A maximal run of characters for which ``str.isalnum`` is true."""


def tokens(text: str) -> list[str]:
    """Return the words of a text in their order, repeats included. Cost O(characters).

    The text is put into Unicode's form NFKC and its case is folded, so that one word has one spelling: ``Straße`` and
    ``STRASSE``, full-width and usual letters, a letter with its accent and the two apart. A word is then a maximal run
    of letters and digits (``str.isalnum``). All else divides: spaces, signs, the underscore, marks that belong to no
    composed letter.

    Examples
    --------
    >>> tokens("Coffee-shop, CAFÉ no_1!")
    ['coffee', 'shop', 'café', 'no', '1']
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [folded] if folded.isalnum() else _RUN.findall(folded)
