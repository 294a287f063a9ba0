"""One more format, route or strategy: a patch of one file, or of a line of a list beside a file that is new."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ceps.strategies
from dtoss.serve import app
from dtoss.serve.auth import route_table
from pipelines.rows import table_formats

ROOT = Path(__file__).parents[2]
BEGIN = """
import contextlib, io, json, sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

def load(name, path):
    found = spec_from_file_location(name, path)
    sys.modules[name] = module_from_spec(found)
    found.loader.exec_module(sys.modules[name])

folder = Path(sys.argv[1])
for name in sys.argv[2:]:
    load(name, folder / f"{name}.py")

from dtoss.errors import InputError
from pipelines.command.app import run

def did(*line):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run([*map(str, line)]) == 0
    return printed.getvalue()

def told(*line):
    return json.loads(did(*line, "--json"))

def refused(do, *given):
    try:
        do(*given)
    except (InputError, ValueError) as error:
        return str(error)
    raise AssertionError("it is not refused")
"""


def patched(source, *changes):
    """The text of a module with lines put in before others, each of which stands there once."""
    text = Path(source).read_text()
    for before, line in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, line + before)
    return text


def works(folder, modules, script):
    """Run a script in a process in which modules are what is given, those first that others import."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-c", BEGIN + script, str(folder), *modules]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


LINES = """
def _spoken(filesystem: fs.FileSystem, file: str) -> Iterator[dict[str, Any]]:
    with _stream(filesystem, file) as stream:
        for line in stream.read().decode().splitlines():
            name, lon, lat, when = line.split(" | ")
            yield {"id": name, "lon": float(lon), "lat": float(lat), "t": when}


"""
ENTRY = """    "spoken": of_records(
        "spoken lines", (".spoken",), _spoken, {"id": pa.string(), **_PLACE}, meant={"t": "timestamp"}
    ),
"""
ASK_OF_FORMAT = """
import gzip
rows = [f"taxi {i} | {8 + i / 100} | 50.5 | 2026-01-01 00:{i:02}" for i in range(50)]
(folder / "in").mkdir()
(folder / "in" / "a.spoken").write_text("\\n".join(rows[:30]))
(folder / "in" / "b.spoken.gz").write_bytes(gzip.compress("\\n".join(rows[30:]).encode()))
store = folder / "store"
did("rebuild", folder / "in", "--store", store, "--time", "t", "--partitions", 2)
(hit,) = told("knn", "--store", store, "--at", 8.31, 50.5, "-k", 1)["hits"]
assert hit["id"] == "taxi 31" and hit["distance"] < 0.001, hit
did("knn", "--store", store, "--queries", folder / "in" / "a.spoken", "-k", 1, "--out", folder / "near.parquet")
import pyarrow.parquet as pq
near = pq.read_table(folder / "near.parquet").to_pydict()
assert near["id"] == near["query_id"] == [f"taxi {i}" for i in range(30)]
from pipelines.rows.inputs import look
from pipelines.rows.table_formats import types_meant
kind = look([str(folder / "in")]).kind
assert (types_meant(kind, None), types_meant(kind, "seen")) == ({"t": "timestamp"}, {})
(folder / "c.shouted").write_text(rows[0])
why = refused(look, [str(folder / "c.shouted")])
assert "GPX, spoken lines and Arrow IPC are read" in why and ".gpx, .spoken, .arrow" in why, why
"""


def test_a_format_is_an_entry_of_a_list(tmp_path):
    """What is looked at, read, asked for, and said of what is read: all is of the list of formats alone."""
    text = patched(table_formats.__file__, ("\n\n_PLACE = {", LINES), ('    "arrow": TableFormat(', ENTRY))
    works(tmp_path, {"pipelines.rows.table_formats": text}, ASK_OF_FORMAT)


HERE = '''"""How many partitions hold an object: ``GET /parts``."""

from __future__ import annotations

import orjson
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.responses import Asker, kept_answer, unless_modified
from dtoss.serve.routes.parameters import Snapshot
from dtoss.serve.routes.schemas import NATURAL, responses, told
from dtoss.serve.state.worker_state import WorkerState


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    @get("/parts", opt={"responses": responses(told("Parts", parts=NATURAL))})
    async def parts(request: Asker, snapshot: Snapshot = None) -> ASGIResponse:
        """Return how many partitions hold an object."""
        served = state.serving.named(snapshot)
        if same := unless_modified(request, served):
            return same
        held = sum(part.owned_objects > 0 for part in served.index.parts.all())
        return kept_answer(request, served, orjson.dumps({"snapshot": served.name, "parts": held}))

    return [parts]
'''
ASK_OF_ROUTE = """
from tests.dtoss.serve.served import NAME, Asker, running, town
index = town(objects=200, partitions=5)
with running(index) as server, Asker(server) as asker:
    assert asker.get("/parts") == {"snapshot": NAME, "parts": 5}
    status, headers, body = asker.raw("/parts?part=1")
    assert (status, headers["content-type"]) == (400, "application/problem+json"), body
    assert json.loads(asker.raw("/parts?snapshot=none")[2])["limit"] == "snapshot"
    assert asker.raw("/parts", "POST")[0] == 405
    said = asker.get("/openapi.json")["paths"]["/parts"]["get"]
    assert said["operationId"] == "countParts" and set(said["responses"]) >= {"200", "304", "4XX"}, said
"""


def test_a_route_is_a_file_and_a_line_of_the_lists_of_routes(tmp_path):
    """Bounds, problems, snapshots, the description and what tokens may come with it."""
    text = patched(
        app.__file__,
        ("    peer_questions,\n", "    parts_held,\n"),
        ("            *peer_questions.handlers(state, held),\n", "            *parts_held.handlers(state),\n"),
    )
    line = '    Call("GET", "/parts", "countParts", READER, AS_A_WHOLE, narrowed=GETS_NOTHING),\n'
    table = patched(route_table.__file__, ("    *map(_of_one_place, OF_PLACES),\n", line))
    modules = {"auth.route_table": table, "routes.parts_held": HERE, "app": text}
    works(tmp_path, {f"dtoss.serve.{name}": said for name, said in modules.items()}, ASK_OF_ROUTE)


TURNS = '''"""Layouts in which cells go to workers in turn."""

from __future__ import annotations

import numpy as np

from ceps.balance.cell_layout import Layout, of_cells
from ceps.balance.round_costs import Loads
from ceps.balance.subscription_load import SubscriptionLoad


def in_turn(loads: Loads, asked: SubscriptionLoad, workers: int) -> Layout:
    """Return the layout in which each cell goes to the next worker."""
    return of_cells(loads.shape, workers, np.arange(len(loads.work)) % workers)
'''
ASK_OF_STRATEGY = """
from tests.pipelines.simulation.test_rehearsing import made
path, asked = made(folder)
line = ["rehearse", path, "--subscriptions", asked, "--workers", "3", "--round", "3h", "--cells", "8", "--out", folder]
found = {one["strategy"]: one for one in told(*line)["strategies"]}
assert found["in-turn"]["mean"] < found["uniform"]["mean"], found
assert "in-turn" in (folder / "report.html").read_text()
from pipelines.watching.spreading import SpreadOptions, check_strategy
check_strategy(SpreadOptions("in-turn", 3))
assert "did you mean in-turn?" in refused(check_strategy, SpreadOptions("in-trun", 3))
"""


def test_a_strategy_is_a_file_and_a_line_of_a_list(tmp_path):
    """It is rehearsed beside all others, and a watch takes it."""
    text = patched(
        ceps.strategies.__file__,
        ("from ceps.balance.baselines", "from ceps.balance.cells_in_turn import in_turn\n"),
        ('    "rtree": partial(', '    "in-turn": partial(FixedLayout, first=in_turn),\n'),
    )
    works(tmp_path, {"ceps.balance.cells_in_turn": TURNS, "ceps.strategies": text}, ASK_OF_STRATEGY)
