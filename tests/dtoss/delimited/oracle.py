"""Delimited text read character by character: the slow, obvious version."""

from __future__ import annotations

import re

BLANK = {chr(code) for code in range(33)}


def read_by_character(text, dialect, columns):
    """Rows as (fields, raw, flaw): a state is what the next character means."""
    rows, state, value, fields, odd, lines = [], "start", "", [], False, []
    blanks = BLANK - {dialect.delimiter} if dialect.trim else set()
    text_lines = re.split(r"\r\n|\n|\r", text)
    for line in text_lines[:-1] if text_lines[-1] == "" else text_lines:
        if state == "start" and not lines and all(c in BLANK for c in line):
            continue
        at = 0
        while at < len(line):
            c, then = line[at], line[at + 1 : at + 2]
            escaped = c == dialect.escape and then and then in (dialect.quote, dialect.delimiter, dialect.escape)
            if state == "quoted":
                if escaped:
                    value, at = value + then, at + 1
                elif c == dialect.quote and then == dialect.quote:
                    value, at = value + c, at + 1
                elif c == dialect.quote:
                    state = "closed"
                else:
                    value += c
            elif escaped:
                odd = odd or state == "closed"
                value, state, at = value + then, "plain", at + 1
            elif c == dialect.delimiter:
                fields.append(value.strip("".join(blanks)) if state != "closed" else value)
                value, state = "", "start"
            elif state == "start" and c == dialect.quote:
                state = "quoted"
            elif c in blanks and state in ("start", "closed"):
                pass
            else:
                odd = odd or state == "closed"
                value, state = value + c, "plain"
            at += 1
        lines.append(line)
        if state == "quoted":
            value += "\n"
            continue
        fields.append(value.strip("".join(blanks)) if state != "closed" else value)
        rows += ended(lines, fields, odd, dialect, columns)
        state, value, fields, odd, lines = "start", "", [], False, []
    return rows + [(None, line, "line end inside quotes") for line in lines]


def ended(lines, fields, odd, dialect, columns):
    """The rows of a record whose quotes are closed."""
    if len(lines) > 1 and not dialect.multiline:
        return [(None, line, "line end inside quotes") for line in lines]
    raw = "\n".join(lines)
    if odd:
        return [(None, raw, "text behind a closing quote")]
    if len(fields) != columns:
        return [(None, raw, None)]
    return [([None if one in ("", dialect.null) else one for one in fields], None, None)]
