"""Named readers on an object store: kept, shared, held by one process, begun anew."""

from __future__ import annotations

import pytest

from dtoss.errors import InputError, StoreError
from dtoss.watch.events.consumer import Share, begin, forget
from dtoss.watch.events.readers import END_OF_BATCH, Cursor, Filter, cursor_of_reader, readers
from dtoss.watch.watch_folder import READERS, Home
from tests.dtoss.watch.events.made import batch_of, event
from tests.object_store import object_store


def test_a_reader_is_held_and_kept_there():
    """By one process at a time; its shares have cursors of their own."""
    with object_store() as place:
        home = Home(place.uri())
        for _ in range(3):
            batch_of(home, [[], [event("s", "enter", 1)]])
        for number in (1, 2):
            with begin(home, "me", Filter(), Share(number, 2), None, print) as reading:
                reading.move(Cursor(number, END_OF_BATCH))
                reading.keep()
                with pytest.raises(StoreError, match=f"share {number}/2 of reader 'me' is being read by process"):
                    begin(home, "me", Filter(), Share(number, 2), None, print)
                with pytest.raises(StoreError, match="is being read by"):
                    forget(home, "me", print)
        assert readers(home) == {"me": Cursor(1, END_OF_BATCH)}
        with pytest.raises(InputError, match="are divided into 2"):
            begin(home, "me", Filter(), Share(), None, print)
        begin(home, "me", Filter("s"), Share(), Cursor(2, 1), print, reset=True).release()
        assert cursor_of_reader(home, "me") == Cursor(2, 1)
        assert home.folder.files(READERS) == ["me.json"]
        assert forget(home, "me", print)
        assert readers(home) == {}
