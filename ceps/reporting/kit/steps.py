"""Steps through pictures: one is shown at a time, chosen on a line of marks; works without script, prints them all."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_STYLE = """
.steps { border: 0; margin: 0; padding: 0; min-width: 0; } .steps legend { padding: 0; font-size: 14px; }
.steps > input { position: absolute; opacity: 0; }
.steps .track { display: flex; margin: 6px 0 10px; border-top: 3px solid var(--frame); }
.steps label { flex: 1 1 0; min-width: 0; padding: 8px 4px 4px 0; font-size: 13px; color: var(--quiet); cursor: pointer;
  position: relative; line-height: 1.3; }
.steps label::before { content: ""; position: absolute; top: -9px; left: 0; width: 11px; height: 11px;
  border-radius: 50%; background: var(--paper); border: 2px solid var(--frame); }
.steps .shown > div { display: none; }
@media (max-width: 560px) { .steps label span { display: none; } }
@media print { .steps .shown > div { display: block !important; } .steps .track { display: none; } }
"""


def step_through(name: str, title: str, steps: Sequence[tuple[str, str, str]], first: int = -1) -> str:
    """Return pictures of which one is shown at a time: a group of radio buttons that looks like a slider.

    Arrow keys go from one to the next. Empty where there are no steps; one step is shown as it is.
    """
    if len(steps) < 2:
        return "".join(html for _, _, html in steps)
    begin = first % len(steps)
    rules, inputs, marks, shown = [], [], [], []
    for number, (short, more, html) in enumerate(steps):
        key = f"{name}-{number}"
        ticked = " checked" if number == begin else ""
        inputs.append(f'<input type="radio" name="{escape(name)}" id="{key}"{ticked}>')
        tail = f"<span><br>{escape(more)}</span>" if more else ""
        marks.append(f'<label for="{key}">{escape(short)}{tail}</label>')
        shown.append(f'<div class="{key}">{html}</div>')
        rules.append(
            f"#{key}:checked ~ .shown > .{key} {{ display: block; }}\n"
            f"#{key}:checked ~ .track label[for={key}] {{ color: var(--ink); font-weight: 650; }}\n"
            f"#{key}:checked ~ .track label[for={key}]::before {{ background: var(--accent); "
            "border-color: var(--accent); }\n"
            f"#{key}:focus-visible ~ .track label[for={key}] {{ outline: 3px solid var(--accent); }}\n"
        )
    return (
        f"<style>{_STYLE}{''.join(rules)}</style>\n"
        f'<fieldset class="steps"><legend>{escape(title)}</legend>{"".join(inputs)}'
        f'<div class="track">{"".join(marks)}</div><div class="shown">{"".join(shown)}</div></fieldset>\n'
    )
