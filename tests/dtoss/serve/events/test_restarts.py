"""A reader that is cut off, of a server that is restarted, has each event once; `make check-data` does it 50 times."""

import pytest

from tests.dtoss.serve.events.restarts import main

MORE = pytest.mark.deep("a second restart, by a signal that lets it end")


@pytest.mark.parametrize(("disconnects", "restarts"), [(4, 1), pytest.param(6, 2, marks=MORE)])
def test_each_event_once_through_disconnects_and_restarts(tmp_path, capsys, disconnects, restarts):
    main(disconnects, restarts, seed=1, folder=str(tmp_path / "store"))
    assert f"{disconnects} disconnects, {restarts} restarts: each once" in capsys.readouterr().out
