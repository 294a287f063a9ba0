"""Any delimited file: say what is where.

`python -m datasets.delimited seen.csv --lon longitude --lat latitude --time seen --out seen.parquet` reads
one. Compressed files (.gz, .bz2, .zst), a byte-order mark, CRLF and quotes need no option.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer

from datasets.tables.command import BadInput, Out, expand, run
from datasets.tables.fields import Layout, read_fields
from datasets.tables.format_source import Column, Notation, Source, read_source, source_schema
from datasets.tables.legal_positions import is_missing
from datasets.tables.standard_rows import Part, save
from dtoss.delimited.records import character


def delimited(files: list[Path], source: Source) -> tuple[pa.Schema, Iterator[Part]]:
    """Return the columns of described files, and the parts to come.

    Parameters
    ----------
    files
        At least one; the first decides the types of id and uid, by its first block.
    source
        What is where.

    Raises
    ------
    BadInput
        See `datasets.tables.format_source.read_source`.
    """
    if not files:
        raise BadInput("no file to read; name one or more")
    source = guess_id_types(files[0], source)
    return source_schema(source), read_source(files, source)


def guess_id_types(path: Path, source: Source) -> Source:
    """Return the source with int64 for ids that are whole numbers throughout the first block, else string.

    Codes with leading zeros are no numbers: ``007`` and ``7`` are two. One that comes later, among numbers, is dropped
    and counted.
    """
    names = [name for name in (source.id, source.uid) if name]
    if not names:
        return source
    first = next((raw for raw, _ in read_fields(path, source.layout, tuple(dict.fromkeys(names)))), None)
    if first is None:
        return source
    whole = {name: _all_whole(first[name]) for name in names}
    kinds = {name: pa.int64() if whole[name] else pa.string() for name in names}
    return replace(
        source,
        leading_zeros=False,
        id_type=kinds.get(source.id or "", source.id_type),
        uid_type=kinds.get(source.uid or "", source.uid_type),
    )


def _all_whole(texts: pa.Array) -> bool:
    trimmed = pc.utf8_trim_whitespace(texts)
    fits = pc.or_(is_missing(trimmed), pc.match_substring_regex(trimmed, r"^(0|-?[1-9]\d{0,17})(\.0+)?$"))
    return bool(pc.all(fits, min_count=0).as_py())


def _character(name: str, what: str) -> str:
    try:
        return character(name, what)
    except ValueError as error:
        raise BadInput(str(error)) from None


def main(
    files: Annotated[list[str], typer.Argument(help="Files, or folders of *.csv.")],
    out: Out,
    lon: Annotated[str, typer.Option(help="Field of the longitude.")] = "lon",
    lat: Annotated[str, typer.Option(help="Field of the latitude.")] = "lat",
    wkt: Annotated[str | None, typer.Option(help="Field with POINT (lon lat), instead.")] = None,
    lat_lon: Annotated[str | None, typer.Option(help="Field with 'lat lon', instead.")] = None,
    lon_lat: Annotated[str | None, typer.Option(help="Field with 'lon lat', instead.")] = None,
    id: Annotated[str | None, typer.Option(help="Field of the row's id; default: rows are numbered.")] = None,
    uid: Annotated[str | None, typer.Option(help="Field of the moving object's id.")] = None,
    time: Annotated[list[str] | None, typer.Option(help="Field of the time; repeat it for date, time.")] = None,
    time_format: Annotated[
        list[str] | None,
        typer.Option(help="auto, iso, excel, epoch-s, epoch-ms, epoch-us or %Y-%m-%d...; tried in turn."),
    ] = None,
    zone: Annotated[str, typer.Option(help="Zone of times without one.")] = "UTC",
    date: Annotated[str | None, typer.Option(help="Fields year,month,day[,hour,minute,second].")] = None,
    text: Annotated[str | None, typer.Option(help="Field that may hold delimiters without quotes.")] = None,
    columns: Annotated[str | None, typer.Option(help="Further fields to keep, as text.")] = None,
    floats: Annotated[str | None, typer.Option(help="Further fields to keep, as numbers.")] = None,
    delimiter: Annotated[str, typer.Option(help="One character, or tab, blank, semicolon, pipe.")] = ",",
    quote: Annotated[str, typer.Option(help="One character, or none.")] = '"',
    escape: Annotated[
        str | None, typer.Option(help="What makes a quote or a delimiter a plain character; one character.")
    ] = None,
    null: Annotated[str | None, typer.Option(help="What stands for no value, such as NA.")] = None,
    names: Annotated[str | None, typer.Option(help="Field names of a file without a header.")] = None,
    skip: Annotated[int, typer.Option(help="Lines before the header or the first row.")] = 0,
    encoding: Annotated[str, typer.Option(help="Encoding of the text.")] = "utf-8",
    multiline: Annotated[bool, typer.Option("--multiline", help="Quoted values may hold line ends.")] = False,
    decimal: Annotated[str, typer.Option(help="Decimal mark.")] = ".",
    swap: Annotated[bool, typer.Option("--swap", help="Exchange lon and lat.")] = False,
    wrap: Annotated[bool, typer.Option("--wrap", help="Take 360 from longitudes above 180.")] = False,
) -> None:
    """Read any delimited file with positions in degrees."""
    fields = {Notation.wkt: wkt, Notation.lon_lat: lon_lat, Notation.lat_lon: lat_lon}
    one_field = [(notation, name) for notation, name in fields.items() if name is not None]
    if len(one_field) > 1:
        raise BadInput("--wkt, --lat-lon and --lon-lat exclude each other; give one")
    position: tuple[str, ...] = (lon, lat)
    notation = Notation.two_fields
    if one_field:
        notation, position = one_field[0][0], one_field[0][1:]
    kept = {name: Column(name) for name in _listed(columns)}
    kept |= {name: Column(name, pa.float64()) for name in _listed(floats)}
    reserved = sorted({"id", "uid", "t", "lon", "lat"} & set(kept))
    if reserved:
        kept = {f"{name}_as_read" if name in reserved else name: column for name, column in kept.items()}
    source = Source(
        layout=Layout(
            names=tuple(_listed(names)) or None,
            delimiter=_character(delimiter, "delimiter"),
            quote=None if quote in ("", "none") else _character(quote, "quote"),
            escape=None if escape is None else _character(escape, "escape"),
            null=null,
            skip=skip,
            text=text,
            encoding=encoding,
            multiline=multiline,
        ),
        position=position,
        notation=notation,
        id=id,
        uid=uid,
        time=tuple(time or ()),
        formats=tuple(time_format or ("auto",)),
        zone=zone,
        date=tuple(_listed(date)),
        columns=kept,
        decimal=decimal,
        swap=swap,
        wrap=wrap,
        check_axes=not swap,
    )
    schema, parts = delimited(expand(files, "*.csv"), source)
    save(parts, schema, out, "delimited")


def _listed(names: str | None) -> list[str]:
    return [name.strip() for name in names.split(",")] if names else []


if __name__ == "__main__":
    run(main)
