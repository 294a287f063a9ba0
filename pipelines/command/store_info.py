"""What is in a store, and the way back to its last snapshot; the standard library is enough on local disks."""

from __future__ import annotations

import json
from typing import Any

from dtoss.names import columns_of_manifest, renamed_of_manifest, said_renamed
from pipelines.command.output import print_table


def print_info(store: str, snapshot: str | None, *, verify: bool, as_json: bool) -> None:
    """Print what is in a store's snapshot, and the watches beside it, as a table or as JSON.

    Raises
    ------
    StoreError
        If there is no such store or snapshot, or it is damaged.
    """
    from dtoss.snapshots.store import Store as StorePlace

    place = StorePlace(store)
    watches = watches_in(store)
    if watches and snapshot is None and not verify and place.head() is None and not place.snapshots():
        if as_json:
            print(json.dumps({"watches": watches}))
        else:
            print_table([("watch", _said(watch)) for watch in watches])
        return
    manifest = place.manifest(snapshot)
    if verify:
        from dtoss.opening import open_index

        open_index(place, manifest["snapshot"], verify=True)
    writer = place.writes()
    facts = facts_of_manifest(manifest)
    facts |= {"writer": None if writer is None else str(writer), "unfinished": place.unfinished()}
    facts["watches"] = watches
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
    rows += [("watch", _said(watch)) for watch in watches]
    if facts["renamed"]:
        rows.append(("renamed", said_renamed(facts["renamed"])))
    if verify:
        rows.append(("files", "all checksums agree with the manifest"))
    print_table(rows)


def watches_in(store: str) -> list[dict[str, Any]]:
    """Return what `--json` prints of the watches of a store: how many batches and changes each has, and who writes."""
    from dtoss.commits.lease import held_by
    from dtoss.errors import StoreError
    from dtoss.watch.home import Home, watches_of

    found = []
    for name in watches_of(store):
        home = Home(store, name)
        writer = held_by(home.folder)
        facts: dict[str, Any] = {"name": name, "writer": None if writer is None else str(writer)}
        try:
            for what, chain in (("batches", home.batches), ("changes", home.changes)):
                head = chain.head()
                facts[what] = 0 if head is None else head.number
        except StoreError as error:
            facts["damaged"] = str(error)
        found.append(facts)
    return found


def _said(watch: dict[str, Any]) -> str:
    parts = [f"{watch[what]:,} {what}" for what in ("batches", "changes") if what in watch]
    parts += [] if watch["writer"] is None else [f"written by {watch['writer']}"]
    parts += [watch["damaged"]] if "damaged" in watch else []
    return f"{watch['name']}: {', '.join(parts)}"


def roll_back(store: str, *, lease: bool = True) -> None:
    """Make the parent of the current snapshot current, and say so.

    Raises
    ------
    StoreError
        If there is none.
    """
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
