"""What is in a store, and the way back to its last snapshot; the standard library is enough on local disks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dtoss.names import columns_of_manifest, renamed_of_manifest, said_renamed
from pipelines.command.terminal.output import print_table

if TYPE_CHECKING:
    from dtoss.windows.storage.window_document import Home


def print_info(store: str, snapshot: str | None, *, verify: bool, as_json: bool) -> None:
    """Print what is in a store's snapshot, and the watches and windows beside it, as a table or as JSON."""
    from dtoss.snapshots.store import Store as StorePlace

    place = StorePlace(store)
    watches, windows = watches_in(store), windows_in(store)
    beside = [("watch", _said(watch)) for watch in watches] + [("windows", _said_windows(one)) for one in windows]
    if beside and snapshot is None and not verify and place.head() is None and not place.snapshots():
        if as_json:
            print(json.dumps({"watches": watches, "windows": windows}))
        else:
            print_table(beside)
        return
    manifest = place.manifest(snapshot)
    if verify:
        from dtoss.opening import open_index

        open_index(place, manifest["snapshot"], verify=True)
    writer = place.writes()
    facts = facts_of_manifest(manifest)
    facts |= {"writer": None if writer is None else str(writer), "unfinished": place.unfinished()}
    facts |= {"watches": watches, "windows": windows}
    if as_json:
        print(json.dumps(facts))
        return
    sizes = [entry["objects"] for entry in manifest["partitions"]]
    share = f"{manifest['replicas'] / max(manifest['objects'], 1):.2%}"
    rows = [
        ("snapshot", f"{facts['snapshot']} of {facts['created']}, format {facts['format']}"),
        ("snapshots", ", ".join(place.snapshots())),
        ("objects", f"{facts['objects']:,} on {facts['sites']:,} sites, {facts['replicas']:,} replicas ({share})"),
        (
            "partitions",
            f"{len(sizes)}: min {min(sizes):,}, mean {sum(sizes) / len(sizes):,.0f}, max {max(sizes):,} objects",
        ),
        ("space", f"{facts['crs']}, {facts['metric']}" + (f", bounds {facts['bounds']}" if facts["bounds"] else "")),
        ("columns", ", ".join(f"{name} {kind}" for name, kind in facts["columns"].items()) or "none"),
        ("rows", ", ".join(f"{name} {n}" for name, n in facts["counts"].items() if name != "quarantined")),
        ("quarantined", ", ".join(f"{n:,} {reason}" for reason, n in facts["counts"]["quarantined"].items()) or "none"),
        ("bytes", f"{facts['bytes']:,}"),
        ("seconds", ", ".join(f"{name} {seconds:.1f}" for name, seconds in facts["timings"].items())),
    ]
    if writer is not None:
        rows.append(("written by", str(writer)))
    rows += [("unfinished", f"{name}: {why}") for name, why in facts["unfinished"]]
    rows += beside
    if facts["renamed"]:
        rows.append(("renamed", said_renamed(facts["renamed"])))
    if verify:
        rows.append(("files", "all checksums agree with the manifest"))
    print_table(rows)


def watches_in(store: str) -> list[dict[str, Any]]:
    """Return what `--json` prints of the watches of a store: how many batches and changes each has, and who writes."""
    from dtoss.commits.lease import held_by
    from dtoss.errors import StoreError
    from dtoss.watch.watch_folder import Home, watches_of

    found = []
    for name in watches_of(store):
        home = Home(store, name)
        writer = held_by(home.folder)
        facts: dict[str, Any] = {"name": name, "writer": None if writer is None else str(writer)}
        try:
            for what, chain in (("batches", home.batches), ("changes", home.changes)):
                head = chain.head()
                facts[what] = 0 if head is None else head.number
        except (StoreError, OSError) as error:
            facts |= _fault(error)
        found.append(facts)
    return found


def _said(watch: dict[str, Any]) -> str:
    parts = [f"{watch[what]:,} {what}" for what in ("batches", "changes") if what in watch]
    parts += [] if watch["writer"] is None else [f"written by {watch['writer']}"]
    parts += [watch[what] for what in ("damaged", "unread") if what in watch]
    return f"{watch['name']}: {', '.join(parts)}"


def windows_in(store: str) -> list[dict[str, Any]]:
    """Return what `--json` prints of the windows of a store: how far they are, their bytes, and whether others come."""
    from dtoss.commits.lease import held_by
    from dtoss.windows.storage.window_document import Home, windows_of

    found = []
    for name in windows_of(store):
        home = Home(store, name)
        writer = held_by(home.folder)
        facts: dict[str, Any] = {"name": name, "writer": None if writer is None else str(writer)}
        found.append(facts | _windows_facts(home))
    return found


def _windows_facts(home: Home) -> dict[str, Any]:
    from dtoss.errors import StoreError
    from dtoss.windows.durations import time_text
    from dtoss.windows.migration.migration_text import change_of
    from dtoss.windows.migration.take_over import heads_of
    from dtoss.windows.state.hour_files import hours_of
    from dtoss.windows.storage.sets import sets_of, sizes_of
    from dtoss.windows.storage.spec_file import read_spec

    try:
        sets = sets_of(home)
        heads = [(one, head) for one, head in heads_of(home, sets) if one.number == sets.current.number]
        facts: dict[str, Any] = {"batches": 0, "watermark": None, "ends": None, "bytes": sizes_of(home, sets)}
        facts["change"] = change_of(sets)
        for one, head in heads:
            facts["batches"] = head.number
            if head.watermark is not None:
                slide, kept = read_spec(one).spec.slide, hours_of(one, head).kept_from
                first = max([time for time in (sets.current.since, kept) if time is not None])
                since = time_text(-(-first // slide) * slide) if first > -(1 << 60) else None
                facts["watermark"] = time_text(head.watermark)
                facts["ends"] = [since, time_text(head.watermark // slide * slide)]
        return facts
    except (StoreError, OSError) as error:
        return _fault(error)


def _fault(error: Exception) -> dict[str, str]:
    """Return what is damaged, or could not be read, under that name."""
    from dtoss.commits.verify_report import line_of

    line, refused = line_of(error)
    return {"unread" if refused else "damaged": line}


def _said_windows(windows: dict[str, Any]) -> str:
    if fault := windows.get("damaged") or windows.get("unread"):
        return f"{windows['name']}: {fault}"
    parts = [f"{windows['batches']:,} batches", f"{windows['bytes']:,} bytes"]
    if windows["ends"] is not None:
        since, until = windows["ends"]
        parts.append(f"due up to {windows['watermark']}, ends {'' if since is None else f'from {since} '}to {until}")
    if windows["change"] is not None:
        change = windows["change"]
        parts.append(f"others take over from {change['since']} on once the watermark is {change['full_at']}")
    parts += [] if windows["writer"] is None else [f"written by {windows['writer']}"]
    return f"{windows['name']}: {', '.join(parts)}"


def roll_back(store: str, *, lease: bool = True) -> None:
    """Make the parent of the current snapshot current, and say so."""
    from dtoss.snapshots.store import Store as StorePlace

    now, before = StorePlace(store).rollback(lease=lease)
    print(f"{now} is current, {before} was")


def facts_of_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what `--json` prints of a manifest."""
    names = (
        "snapshot", "created", "format", "objects", "sites", "replicas", "crs", "metric", "bounds", "columns",
        "parameters", "counts", "bytes", "area", "pivots_hash", "timings",
    )  # fmt: skip
    facts = {name: manifest[name] for name in names}
    facts["columns"], facts["renamed"] = columns_of_manifest(manifest), renamed_of_manifest(manifest)
    facts["input"] = manifest.get("input")
    entries = manifest["partitions"]
    facts["partitions"] = len(entries)
    facts["objects_per_partition"] = [entry["objects"] for entry in entries]
    facts["bytes_per_partition"] = [entry["bytes"] for entry in entries]
    facts["cells"] = {
        "certified": manifest["sites"] - sum(entry["uncertified"] for entry in entries),
        "fixed": manifest["borders"]["fixed"],
    }
    facts["lambda"] = manifest["reach"]
    facts["parent"] = manifest.get("parent")
    return facts
