"""Marks each function of the project that a process enters, while ``ENTERED`` names a folder for the marks.

Python imports this by itself where the folder is in PYTHONPATH, so also in processes that tests start. A file of
marks is mapped and shared: a process that is killed has left its marks, and a fork marks where its parent does.
"""

import ast
import builtins
import importlib.machinery
import mmap
import os
import sys
from pathlib import Path

FOLDER = os.environ.get("ENTERED")
ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("dtoss", "ceps", "pipelines", "datasets")
COMPILED = ("kernel", "step", "njit", "jit", "intrinsic", "overload", "register_jitable", "vectorize", "stand_in")


def functions_of(tree, module):
    """Return the functions of a module that Python runs, as pairs of a name and a node, in the order of the text."""
    found = []

    def compiled(node):
        for mark in node.decorator_list:
            called = mark.func if isinstance(mark, ast.Call) else mark
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in COMPILED:
                return True
        return False

    def walk(node, inside):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                if not compiled(child):
                    found.append((f"{module}:{inside}{child.name}", child))
                    walk(child, f"{inside}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                walk(child, f"{inside}{child.name}.")
            else:
                walk(child, inside)

    walk(tree, "")
    return found


def all_functions(root=ROOT):
    """Return the names of all functions in a fixed order; a function's number is its place in it."""
    names = []
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            names += [name for name, _ in functions_of(ast.parse(file.read_text()), module)]
    return names


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with a mark at the beginning of each function; what it compiles is kept nowhere."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path))
        relative = Path(path).resolve().relative_to(ROOT)
        for name, node in functions_of(tree, ".".join(relative.with_suffix("").parts)):
            number = NUMBERS.get(name)
            if number is None:
                continue
            mark = ast.parse(f"__entered__[{number}] = 1").body[0]
            at = 1 if ast.get_docstring(node, clean=False) is not None else 0
            line = node.body[min(at, len(node.body) - 1)].lineno
            for part in ast.walk(mark):
                if hasattr(part, "lineno"):
                    part.lineno = part.end_lineno = line
            node.body.insert(at, mark)
        return compile(tree, path, "exec", dont_inherit=True)


class Finder:
    """Finds the project's own modules before Python's finder does."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in PACKAGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return spec
        if not Path(spec.origin).resolve().is_relative_to(ROOT):
            return spec
        spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def begin(folder):
    """Map this process's file of marks, and see to it that modules mark what is entered."""
    names = (Path(folder) / "names.txt").read_text().split("\n")
    NUMBERS.update({name: number for number, name in enumerate(names)})
    test = os.environ.get("ENTERED_TEST", "none")
    place = Path(folder) / f"{test}.{os.getpid()}.marks"
    with place.open("w+b") as file:
        file.truncate(len(names))
        builtins.__entered__ = mmap.mmap(file.fileno(), len(names))
    sys.meta_path.insert(0, Finder)


NUMBERS = {}
if FOLDER and (Path(FOLDER) / "names.txt").exists():
    try:
        begin(FOLDER)
    except OSError as error:
        print(f"nothing is marked: {error}", file=sys.stderr)
