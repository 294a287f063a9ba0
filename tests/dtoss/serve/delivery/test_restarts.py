"""A reader that is cut off, of a server that is restarted, has each event once; `make check-data` does it 50 times."""

from tests.dtoss.serve.delivery.restarts import main


def test_each_event_once_through_disconnects_and_restarts(tmp_path, capsys):
    main(disconnects=6, restarts=2, seed=1, folder=str(tmp_path / "store"))
    assert "6 disconnects, 2 restarts: each once" in capsys.readouterr().out
