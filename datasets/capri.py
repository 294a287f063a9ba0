"""Check-ins whose places stand in a file of their own, as the CAPRI benchmark ships Gowalla and Brightkite.

`python -m datasets.capri checkins.txt --places poiCoos.txt --out checkins.parquet` joins the two. A check-in
is user, place and UNIX time, apart by TAB; a place is its number, latitude and longitude.
Source: github.com/CapriRecSys/CAPRI, Data/Gowalla.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

from datasets.tables.command import Out, expand, run
from datasets.tables.fields import Layout, read_fields
from datasets.tables.format_source import BAD_ID, NO_ID, Source, identity, read_source, source_schema
from datasets.tables.legal_positions import Numbers
from datasets.tables.standard_rows import Counts, Part, assemble, collect, number_rows, save, standard_schema
from datasets.tables.time_notations import parse_times

PLACES = Source(
    layout=Layout(names=("place", "lat", "lon"), delimiter="\t", quote=None),
    id="place",
    id_type=pa.string(),
)
CHECKINS = Layout(names=("user", "place", "time"), delimiter="\t", quote=None)
SCHEMA = standard_schema(uid_type=pa.int64(), columns={"poi": pa.string()})
UNKNOWN = "place is not in the file of places"


def capri(files: Iterable[str | Path], places: str | Path) -> Iterator[Part]:
    """Yield check-ins with the positions of their places: id, uid, t, lon, lat, poi (a string).

    Parameters
    ----------
    files
        Files of check-ins, or folders of ``*checkins*.txt``; read in bounded memory.
    places
        File of places; held in memory.

    Raises
    ------
    BadInput
        A file that does not exist or cannot be read.
    """
    found = expand([places], "poiCoos.txt")
    table, counts = collect(read_source(found, PLACES), source_schema(PLACES))
    lost = sum(counts.dropped.values())
    note = f"{found[0].name}: {counts.read:,} places, {lost:,} of them without a legal position"
    paths = expand(files, "*checkins*.txt")
    return number_rows((part for path in paths for part in _join(path, table, note)), SCHEMA)


def _join(path: Path, places: pa.Table, note: str) -> Iterator[Part]:
    known = places["id"].combine_chunks()
    lon, lat = (places[name].to_numpy() for name in ("lon", "lat"))
    for raw, lost in read_fields(path, CHECKINS, ("user", "place", "time")):
        at = pc.index_in(raw["place"], value_set=known)
        unknown = at.is_null().to_numpy(zero_copy_only=False)
        row = pc.fill_null(at, len(places)).to_numpy()
        none = np.zeros(len(row), dtype=np.bool_)
        x, y = (Numbers(np.append(axis, 0.0)[row], none, none) for axis in (lon, lat))
        times = parse_times(raw["time"], ("epoch-s",))
        users, no_user, odd_user = identity(raw["user"], pa.int64())
        columns = {"uid": users, "poi": raw["place"]}
        rejected = {
            NO_ID.format("uid"): no_user,
            BAD_ID.format("uid"): odd_user,
            UNKNOWN: unknown,
        }
        batch, counts = assemble(SCHEMA, path, raw, x, y, times, columns, rejected, {})
        yield batch, counts + lost + Counts(notes=(note,))


def main(
    files: Annotated[list[str], typer.Argument(help="Files of check-ins, or a folder of them.")],
    places: Annotated[Path, typer.Option(help="File of places: number, latitude, longitude.")],
    out: Out,
) -> None:
    """Read check-ins and the places they name."""
    save(capri(files, places), SCHEMA, out, "capri")


if __name__ == "__main__":
    run(main)
