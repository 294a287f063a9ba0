"""Windows that others replace, over HTTP: told while it is under way, answered from the right set, with new ETags."""

from __future__ import annotations

import pytest

from dtoss.serve.core.server_settings import Paces
from dtoss.windows.durations import time_text
from dtoss.windows.query.window_query import open_windows
from dtoss.windows.storage.sets import sets_of
from tests.dtoss.serve.served import Asker, running, target, town
from tests.dtoss.windows.migration.following import OTHER_SITES, begin_beside, fixed_in, long_batches, play
from tests.dtoss.windows.storage.kept import SECOND, SITES, Home, spec


@pytest.fixture(scope="module")
def index():
    return town(objects=300)


def test_a_set_takes_over_while_a_server_runs(index, tmp_path):
    """The same path has another ETag once others come, and once they answer; ends of before stay those of before."""
    home, batches = Home(str(tmp_path / "store"), "fleet"), long_batches(8, batches=8, rows=12)
    fixed_in(home, spec(), SITES)
    play(home, batches[:2])
    with running(index, store=home.store, paces=Paces(windows=0.0)) as server, Asker(server) as asker:
        tags = [asker.raw("/windows/fleet")[1]["etag"]]
        assert "change" not in asker.get("/windows/fleet")
        coming = begin_beside(home, spec("6s,10s", sites=OTHER_SITES), OTHER_SITES).coming
        change = {"set": 2, "since": time_text(coming.since), "full_at": time_text(coming.full_at)}
        assert asker.get("/windows/fleet")["change"] == change
        tags.append(asker.raw("/windows/fleet")[1]["etag"])
        (told,) = asker.get("/windows")["windows"]
        assert (told["set"], told["since"], told["change"]) == (1, None, change)
        play(home, batches)
        assert sets_of(home).coming is None
        now = asker.get("/windows/fleet")
        tags.append(asker.raw("/windows/fleet")[1]["etag"])
        assert (now["window"], "change" in now) == ("6s", False)
        assert len(set(tags)) == len(tags)
        (told,) = asker.get("/windows")["windows"]
        assert (told["set"], told["since"], told["change"]) == (2, change["since"], None)
        before = time_text(coming.since - 2 * SECOND)
        early = asker.get("/windows/fleet", end=before)
        assert early["window"] == "4s"
        want = open_windows(home.store, "fleet").of_end(before).at(before, "4s")
        assert [row["key"] for row in early["rows"]] == want["key"].to_pylist()
        status, _, body = asker.raw(target("/windows/fleet/series", key=0, since=before))
        assert status == 400
        assert b"were replaced by others from the end" in body
        assert len(asker.get("/windows/fleet/series", key=0, since=before, until=before)["rows"]) == 1
