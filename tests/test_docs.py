"""What the documents name is there: files, modules, commands with their options, links; and their lines can be read."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from dtoss.queries.kernels import address_table
from pipelines.command.app import command_line

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("dtoss", "ceps", "pipelines", "datasets", "bench", "tests", "docs")
LONGEST = 120
OTHERS = {"--py-files", "--executor-memory"}
"""Options of spark-submit that the documents name by themselves."""
OPTION = r"(?<![\w-])--[a-z][a-z0-9-]*"


def documents():
    """All documents of the project."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        return [path for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")) if path.exists()]
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def long_lines(text):
    """Lines that are too long, but for rows of tables, which cannot be broken."""
    return [line for line in text.splitlines() if len(line) > LONGEST and not line.startswith("|")]


def code(text):
    """What stands as code: each line between fences, continued ones as one, and each span in backticks."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found = [line.strip() for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return found + [span.replace("\\|", "|") for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose)]


def anchors(text):
    """The names by which a document's headings are linked to."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path, text):
    """Links to files, and to headings in them, that are not there."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http://", "https://", "mailto:")):
            name, _, anchor = target.partition("#")
            file = path.parent / name
            there = file.exists()
            if there and anchor:
                there = anchor in anchors(file.read_text(encoding="utf-8") if name else text)
            if not there:
                broken.append(target)
    return broken


def missing_files(text):
    """Paths below our folders that are not there."""
    named = re.findall(rf"(?<![\w/.-])((?:{'|'.join(FOLDERS)})/[\w./-]*)", "\n".join(code(text)))
    return [name for name in named if not (ROOT / name.rstrip(".")).exists()]


def is_there(name):
    """Whether a dotted name is a module of ours, or something that stands in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            spec = importlib.util.find_spec(".".join(parts[:count]))
        except ModuleNotFoundError:  # a part before the last one is no package
            continue
        if spec is not None:
            if count == len(parts):
                return True
            found = importlib.import_module(".".join(parts[:count]))
            return hasattr(found, parts[count])
    return False


def missing_names(text):
    """Dotted names of ours that are no module and stand in none."""
    named = re.findall(rf"(?<![\w/.@\"'-])((?:{'|'.join(FOLDERS[:-1])})(?:\.[A-Za-z_]\w*)+)", "\n".join(code(text)))
    others = (".zip", ".whl", ".md", ".py", ".json", ".X")  # files, and any module
    return [name for name in sorted(set(named)) if not name.endswith(others) and not is_there(name)]


def missing_definitions(text):
    """Names that a document says stand in a file, and that are defined nowhere in it."""
    prose = re.sub(r"\s+", " ", text)
    said = [(name, file) for name, file in re.findall(r"`(\w+)` in `([\w./]+\.py)`", prose)]
    said += [(name, file) for file, name in re.findall(r"`([\w./]+\.py)`: `(\w+)`", prose)]
    return [name for name, file in said if not re.search(rf"^(def |class )?{name}\b", source(file), re.MULTILINE)]


@cache
def source(file):
    """The text of a file of ours, empty where there is none."""
    return (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""


@cache
def options(command):
    """The options of a ``dtoss`` command; of all together where None is asked for. None where there is no such one."""
    commands = dict(command_line().commands)
    groups = [name for name in commands if hasattr(commands[name], "commands")]
    commands |= {f"{name} {one}": inner for name in groups for one, inner in commands[name].commands.items()}
    if command is None:
        named = {one for option in command_line().params for one in option.opts}
        return {"--help", *named}.union(*(options(one) for one in commands))
    if command not in commands:
        return None
    named = (one for option in commands[command].params for one in (*option.opts, *option.secondary_opts))
    return {"--help", *named}


@cache
def options_of(module):
    """The options of a program: texts in its file, and parameters of its ``main``, which Typer makes options of.

    Where another function makes it, they are those of the ``main`` in that one.
    """
    source = (ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    held = ast.parse(source)
    if "\nmain = command_of(" in source:
        held = ast.parse((ROOT / "datasets/tables/format_source.py").read_text(encoding="utf-8"))
        (held,) = (node for node in held.body if isinstance(node, ast.FunctionDef) and node.name == "command_of")
    mains = [node for node in held.body if isinstance(node, ast.FunctionDef) and node.name == "main"]
    names = {f"--{arg.arg.replace('_', '-')}" for node in mains for arg in (*node.args.args, *node.args.kwonlyargs)}
    return names | set(re.findall(r"[\"'](--[a-z][a-z0-9-]*)", source)) | {"--help"}


@cache
def options_of_programs():
    """The options of all programs of ``datasets`` and ``bench``."""
    files = (path for folder in ("datasets", "bench") for path in (ROOT / folder).rglob("*.py"))
    return set().union(*(options_of(str(path.relative_to(ROOT).with_suffix(""))) for path in files))


def wrong_options(text):
    """Options, each behind its command, that the command does not have; commands that are not there."""
    wrong = []
    for line in code(text):
        line = re.sub(r"\s#.*$", "", line)
        asked = re.findall(OPTION, line)
        if ours := re.search(
            r"(?:^|\$ )dtoss ((?:catalogue|history|windows) [a-z]+|[a-z]+(?:-[a-z]+)*)"
            r"|^\S*spark-submit.*? pipelines/([a-z]+)\.py",
            line,
        ):
            known = options(ours[1] or ours[2])
            asked = re.findall(OPTION, line[ours.end() :])
        elif module := re.search(r"python -m ((?:datasets|bench|pipelines)\.[\w.]+)", line):
            if not (ROOT / (module[1].replace(".", "/") + ".py")).exists():
                continue  # a package, or a name that is not there: another check says so
            known = options_of(module[1])
        elif short := re.match(r"\.\.\. ([a-z]+) .*--", line):
            known = options_of(f"datasets.{short[1]}")
        elif line.startswith("--"):
            known = options(None) | options_of_programs() | OTHERS
        else:
            continue
        wrong += [line] if known is None else [f"{option} in {line}" for option in asked if option not in known]
    return wrong


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_documents(path):
    """Lines of prose have at most 120 characters, and what a document names is there."""
    text = path.read_text(encoding="utf-8")
    assert long_lines(text) == []
    assert broken_links(path, text) == []
    assert missing_files(text) == []
    assert missing_names(text) == []
    assert missing_definitions(text) == []
    assert wrong_options(text) == []


def test_each_document_is_in_the_list_of_documents():
    """`docs/README.md` says of each what it is for."""
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text(encoding="utf-8")))
    assert linked == {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}


def test_first_pages_are_short_and_lead_nowhere_else():
    """README has at most 220 lines, and the tutorial links no other page before its end."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 220
    hour, _, after = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8").partition("\n## Where next\n")
    assert "](" not in hour
    assert "](" in after


def test_renting_and_its_proof_say_nothing_twice():
    """No sentence of one page stands on the other."""
    said = []
    for name in ("renting", "ceps"):
        prose = re.sub(r"```.*?```", "", (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"), flags=re.DOTALL)
        said.append({one for one in re.split(r"(?<=[.:]) |\|", re.sub(r"\s+", " ", prose)) if len(one) > 40})
    assert said[0] & said[1] == set()


def test_columns_are_numbered_as_kernels_number_them():
    """Where a document says what stands in a column of the address table."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    ((number, name),) = re.findall(r"column (\d+) of the address table[^|]*\| `([A-Z_]+)`", text)
    assert getattr(address_table, name) == int(number)


def test_the_checks_find_what_they_look_for():
    """Each of them, in a document where it is wrong."""
    text = f"""# A title, with `code`

{"long " * 30}
| {"long " * 30} |
[here](#a-title-with-code) [there](docs/cells.md#speed-of-light) [gone](docs/gone.md) [away](https://example.org/x)
`dtoss/partition.py`, `dtoss/world.py`, `python -m bench.gone`, `dtoss.build(ids)`, `dtoss.bild`, `ceps.bounds.exact.x`
`dtoss knn --store S --near`, `dtoss ask`, `--reach`, `--rich`, `python -m datasets.uniform --rows 3 --lines 3`
`Graph` in `dtoss/partition.py`, `BLOCK` in
`dtoss/partition.py`, `Shrub` in `dtoss/partition.py`, `dtoss/partition.py`: `FAN`, `dtoss/partition.py`: `TAN`

```
spark-submit --any one pipelines/rebuild.py positions \\
  --store s --shop t   # --not an option
pip install --anything
```
"""
    assert long_lines(text) == ["long " * 30]
    assert broken_links(ROOT / "README.md", text) == ["docs/cells.md#speed-of-light", "docs/gone.md"]
    assert missing_files(text) == ["dtoss/world.py"]
    assert missing_definitions(text) == ["Shrub", "TAN"]
    assert missing_names(text) == ["bench.gone", "ceps.bounds.exact.x", "dtoss.bild"]
    assert [line.split(" in ")[0] for line in wrong_options(text)] == [
        "--shop",
        "--near",
        "dtoss ask",
        "--rich",
        "--lines",
    ]
