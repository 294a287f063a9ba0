"""Commands that are done before a parser of options were loaded, which takes longer than they do.

Only the plain form of a command is read here. Anything else (an unknown option, help, a value that is missing) goes to
the parser, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence


class UsageError(Exception):
    """The arguments of a command are not what it takes."""


_VALUES = {"info": ("--store", "--snapshot"), "rollback": ("--store",)}
_FLAGS = {"info": ("--verify", "--json"), "rollback": ()}


def answer_quickly(arguments: Sequence[str]) -> bool:
    """Do what ``--version``, ``info`` and ``rollback`` ask for; return whether it was one of them.

    Raises
    ------
    StoreError
        If the store is missing or damaged.
    """
    if list(arguments) == ["--version"]:
        import dtoss

        print(f"dtoss {dtoss.__version__}")
        return True
    if not arguments or arguments[0] not in _VALUES:
        return False
    options = _options(arguments[1:], _VALUES[arguments[0]], _FLAGS[arguments[0]])
    if options is None or "--store" not in options:
        return False
    from pipelines.store_info import print_info, roll_back

    if arguments[0] == "rollback":
        roll_back(options["--store"])
    else:
        snapshot = options.get("--snapshot")
        print_info(options["--store"], snapshot, verify="--verify" in options, as_json="--json" in options)
    return True


def _options(arguments: Sequence[str], values: Sequence[str], flags: Sequence[str]) -> dict[str, str] | None:
    """Return the options that are given, None where any is not plain."""
    found: dict[str, str] = {}
    waiting = list(arguments)
    while waiting:
        name, equals, value = waiting.pop(0).partition("=")
        if name in found:
            return None
        if name in flags and not equals:
            found[name] = ""
        elif name in values and (equals or waiting):
            found[name] = value if equals else waiting.pop(0)
            if found[name].startswith("-"):
                return None
        else:
            return None
    return found
