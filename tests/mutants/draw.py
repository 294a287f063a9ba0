"""Draws faults by a seed over all rooms: ``python -m tests.mutants.draw [--seed 1] [--count 120] > drawn.tsv``.

A comparison is turned, a whole number is one more, a statement or a ``not`` is left out. Nobody picks what is caught.
"""

from __future__ import annotations

import argparse
import ast
import random
from collections import defaultdict

from tests.mutants.faults import ROOT, escape

PACKAGES = ("dtoss", "ceps", "pipelines", "datasets")
TURNED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip


def offsets(source):
    """Return where each line of a text begins, counted in bytes as ast does."""
    begins, at = [], 0
    for line in source.encode().splitlines(keepends=True):
        begins.append(at)
        at += len(line)
    return begins


def sites(tree, source):
    """Return (kind, first byte, byte after the last, other text) of each place of a module that can be turned."""
    begins, data, found = offsets(source), source.encode(), []

    def place(node):
        return begins[node.lineno - 1] + node.col_offset, begins[node.end_lineno - 1] + node.end_col_offset

    def visit(node, inside):
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST) or isinstance(child, ast.Assert):
                    continue
                if inside:
                    take(child)
                visit(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    def take(node):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in TURNED:
            first, last = place(node.left)[1], place(node.comparators[0])[0]
            sign, other = TURNED[type(node.ops[0])]
            between = data[first:last].decode()
            if between.count(sign) == 1:
                found.append(("comparison turned", first, last, between.replace(sign, other)))
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            found.append(("constant + 1", *place(node), str(node.value + 1)))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            first, last = place(node)
            found.append(("not removed", first, last, data[slice(*place(node.operand))].decode()))
        elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or isinstance(node, ast.AugAssign):
            found.append(("statement removed", *place(node), "pass"))

    visit(tree, False)
    return found


def with_context(source, first, last):
    """Return what stands around a stretch of a text, in bytes, in as many whole lines as occur once."""
    data = source.encode()
    begin, end = data.rfind(b"\n", 0, first) + 1, data.find(b"\n", last)
    while data.count(data[begin:end]) != 1:
        begin = data.rfind(b"\n", 0, begin - 1) + 1
        end = data.find(b"\n", end + 1)
    return data[begin:first].decode(), data[last:end].decode()


def drawn(seed, count, root=ROOT):
    """Return lines of faults: one of each folder, then more of the larger ones."""
    rng = random.Random(seed)
    rooms = defaultdict(list)
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            source = file.read_text()
            for kind, *site in sites(ast.parse(source), source):
                rooms[file.parent.relative_to(root).as_posix()].append((file, kind, *site))
    order = sorted(rooms)
    chosen = [rng.choice(rooms[room]) for room in order][:count]
    weights = [len(rooms[room]) for room in order]
    while len(chosen) < count:
        one = rng.choice(rooms[rng.choices(order, weights)[0]])
        if one not in chosen:
            chosen.append(one)
    for file, kind, first, last, other in sorted(chosen, key=lambda one: (str(one[0]), *one[2:])):
        source = file.read_text()
        before, after = with_context(source, first, last)
        text = source.encode()[first:last].decode()
        fields = (file.relative_to(root).as_posix(), before + text + after, before + other + after, kind)
        yield "\t".join(map(escape, fields))


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--count", type=int, default=120)
    options = ask.parse_args()
    print(*drawn(options.seed, options.count), sep="\n")


if __name__ == "__main__":
    main()
