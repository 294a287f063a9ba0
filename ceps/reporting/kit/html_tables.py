"""Tables with a caption, heads and scopes; numbers to the right, and sideways room on narrow screens."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, chosen: int = -1, text: Sequence[int] = ()
) -> str:
    """Return a table; the first column heads its rows.

    ``text``: columns, beside the first, that hold words and so begin at their left.
    """
    kinds = [' class="text"' if place in text else "" for place in range(len(head))]
    top = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(head, kinds, strict=True))
    body = []
    for number, row in enumerate(rows):
        first, *others = row
        cells = "".join(f"<td{kind}>{escape(value)}</td>" for value, kind in zip(others, kinds[1:], strict=True))
        mark = ' class="chosen"' if number == chosen else ""
        body.append(f'<tr{mark}><th scope="row">{escape(first)}</th>{cells}</tr>')
    # A region that scrolls sideways must be reached by keys.
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption>"
        f"<thead><tr>{top}</tr></thead><tbody>{''.join(body)}</tbody></table></div>\n"
    )
