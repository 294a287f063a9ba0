"""What comes from tasks to the driver, and what bounds each: nothing of the size of all rows."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[3] / "pipelines"
OF_SPARK = {"collect", "toArrow", "toPandas", "toLocalIterator"}
OURS = {"done_by_all", "done_by_bucket", "done_by_number", "brought_here", "collect_small"}
IN_TASKS = {"map", "map_numbered", "rows", "all_rows", "_run"}
"""What returns rows in tasks, of which ``values`` and ``table`` are actions."""
BOUNDS = {
    ("command/query/sql.py", "toArrow"): "the rows that a statement of the user's answers",
    ("cycles/collect.py", "brought_here"): "`few` bytes",
    ("cycles/collect.py", "collect"): "rows of this process, on its way without Spark",
    ("cycles/collect.py", "done_by_all"): "files of its updates a task, and which partitions they go to",
    ("cycles/partitions.py", "values"): "an entry a partition",
    ("cycles/spread.py", "done_by_number"): "an entry a partition",
    ("engines/local_rows.py", "collect"): "rows of this process, on its way without Spark",
    ("engines/spark_rows.py", "brought_here"): "`few` bytes",
    ("engines/spark_rows.py", "collect_small"): "`few` bytes",
    ("engines/spark_rows.py", "done_by_all"): "what callers say, each in a line of this table",
    ("engines/spark_rows.py", "toArrow"): "what callers say, each in a line of this table",
    ("engines/spark_rows.py", "values"): "what callers say, each in a line of this table",
    ("history_tasks/into_files.py", "values"): "what became of each task's files, and their footers",
    ("load_patterns/log_files.py", "table"): "rows of logs of accesses, on its way without Spark",
    ("patterns.py", "values"): "counts a task, and sums by partition and slot",
    ("rows/delimited_frame.py", "values"): "a boolean a task",
    ("rows/footers.py", "done_by_number"): "what files say of their columns, those in a row that agree as one",
    ("rows/position_frame.py", "values"): "a file's entry a task",
    ("rows/read_files.py", "values"): "counts a task",
    ("rows/screened_frame.py", "values"): "a tally a task",
    ("rows/survey.py", "table"): "MOST_SAMPLED rows of id, x, y and t",
    ("rows/survey.py", "values"): "counts a task, and a few ids",
    ("rows/table_tasks.py", "values"): "the kinds of columns, a task each",
    ("simulation/simulate.py", "table"): "rows of a rehearsal, on its way without Spark",
    ("spark/by_bucket.py", "toArrow"): "`few` bytes",
    ("watching/typed_rows.py", "done_by_bucket"): "a summary a task",
    ("watching/typed_rows.py", "values"): "an end a task",
    ("watching/watch_batches.py", "values"): "a summary a task",
    ("windowing/window_batches.py", "done_by_bucket"): "a summary a task",
    ("windowing/window_batches.py", "done_by_number"): "a summary a part",
}
"""(file, call): what bounds it."""


def brought(tree):
    """The calls of some code that bring something of tasks to the process that asked."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            if node.func.id in OURS:
                yield node.func.id
            continue
        if not isinstance(node.func, ast.Attribute):
            continue
        name, of = node.func.attr, node.func.value
        if name in OURS or (name in OF_SPARK and not (isinstance(of, ast.Name) and of.id == "gc")):
            yield name
        chained = isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr in IN_TASKS
        if name in ("values", "table") and chained:
            yield name


def test_all_that_comes_to_the_driver_stands_in_the_table():
    """With what bounds it."""
    found = {
        (str(path.relative_to(ROOT)), call)
        for path in ROOT.rglob("*.py")
        for call in brought(ast.parse(path.read_text()))
    }
    assert found ^ set(BOUNDS) == set()


def test_the_check_finds_what_it_looks_for():
    """And leaves out what is no action."""
    code = "a.collect(); gc.collect(); b.toPandas(); c.map(f, s).values(); d.rows(n).table(s); {}.values(); pa.table(x)"
    assert Counter(brought(ast.parse(code))) == {"collect": 1, "toPandas": 1, "values": 1, "table": 1}
    assert list(brought(ast.parse("done_by_all(rows, work); rows.brought_here(3)"))) == ["done_by_all", "brought_here"]
