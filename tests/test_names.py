"""Names that a stranger finds his way by: files once, functions that act are verbs, classes are nouns."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.sources import many_trees, trees

ROOT = Path(__file__).parents[1]
LAYERS = ("dtoss", "ceps", "pipelines", "datasets")
TWICE = {"__init__", "app", "history", "patterns", "report"}
"""Names of files that may stand in several folders."""
NO_VERB_IN_ED = {"speed", "need", "seed", "feed", "embed", "shed", "indeed", "exceed", "proceed"}
IRREGULAR = {
    "begun", "broken", "brought", "built", "caught", "chosen", "done", "drawn", "forgotten", "found", "given", "gone",
    "heard", "held", "kept", "known", "left", "made", "meant", "met", "paid", "said", "seen", "sent", "shown", "spent",
    "spoken", "stood", "taken", "thrown", "told", "understood", "written",
}  # fmt: skip
PUBLIC = {"mixed"}
"""Names of ceps that users call."""


def is_participle(name):
    """Whether a name is nothing but a participle: `told`, `Asked`; not `is_asked`, `ask_again`, `WorkFailed`."""
    word = name.lower()
    alone = "_" not in name and sum(letter.isupper() for letter in name) <= 1
    ends = word.endswith("ed") and len(word) > 4 and word not in NO_VERB_IN_ED
    return alone and (ends or word in IRREGULAR)


def used_elsewhere(modules):
    """Functions and classes that a module of another folder imports by name: (module, name) pairs."""
    own = {
        (name, node.name): not any(ast.unparse(base).endswith("Error") for base in getattr(node, "bases", ()))
        for name, tree in modules.items()
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and parent(node.module) != parent(name):
                yield from ((node.module, alias.name) for alias in node.names if own.get((node.module, alias.name)))


def parent(module):
    return module.rpartition(".")[0]


def product():
    found = {path: tree for layer in LAYERS for path, tree in trees(ROOT / layer).items()}
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): tree for path, tree in found.items()}


def test_a_file_name_stands_once():
    """So a name that is searched for leads to one place."""
    counts = Counter(path.stem for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
    assert {name for name, count in counts.items() if count > 1} == TWICE


def test_what_other_rooms_use_is_no_bare_participle():
    """A verb for what acts, a noun for what is."""
    with many_trees():
        names = {(module, name) for module, name in used_elsewhere(product()) if is_participle(name)}
    assert {name for _, name in names} <= PUBLIC, sorted(names)


def test_the_check_finds_what_it_looks_for():
    code = {"a.b": "def told(): ...\nclass Asked: ...\nclass Gone(ValueError): ...\ndef tell(): ...", "c.d": ""}
    code["c.d"] = "def f():\n    from a.b import Asked, Gone, tell, told"
    found = set(used_elsewhere({name: ast.parse(text) for name, text in code.items()}))
    assert {name for _, name in found if is_participle(name)} == {"told", "Asked"}
    assert not any(map(is_participle, ("tell", "speed", "is_told", "told_by", "WorkFailed", "Answer")))
