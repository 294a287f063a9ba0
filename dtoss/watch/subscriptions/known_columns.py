"""What is known of the rows of a watch before they come: from its batches, its changes, or the store's snapshot."""

from __future__ import annotations

from typing import Any

from dtoss.errors import InputError, StoreError
from dtoss.geometry.space import Space, same_crs, space_of
from dtoss.watch.subscriptions.validation import Against
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings


def known_of(
    home: Home, *, crs: str | None = None, metric: str | None = None, allow_everything: bool = False
) -> Against:
    """Return what subscriptions of a watch are checked against.

    ``crs``, ``metric``: of the places, as :func:`dtoss.geometry.space.space_of` takes them; what is known already when
    None.

    The last batch says most: the space, the columns, whether there are texts and times. Before the first batch the
    space is that of the last change, else that of the store's current snapshot, else degrees.
    """
    settings = settings_of(home)
    space = asked_space(home) if settings is None else settings.space
    if crs is not None or metric is not None:
        said = space_of(crs, metric)
        if space is not None and not _same(said, space):
            raise InputError(
                f"the places are said to be in {_named(said)} and watch {home.name!r} is in {_named(space)}: transform "
                "them first, or give another --watch"
            )
        space = space or said
    space = space or space_of()
    if settings is None:
        return Against(space, allow_everything=allow_everything)
    timed = settings.time is not None and not settings.messages
    return Against(space, settings.schema, settings.text is not None, timed, allow_everything)


def settings_of(home: Home) -> Settings | None:
    """Return the settings of a watch; None before its first batch."""
    head = home.batches.head() if home.folder.there() else None
    said: Any = None if head is None else head.document.get("settings")
    return None if said is None else Settings.of(said)


def asked_space(home: Home) -> Space | None:
    """Return the space that the subscriptions of a watch are in: of the last change, else of the store's snapshot."""
    head = home.changes.head() if home.asked.there() else None
    said = None if head is None else head.document.get("space")
    if said is not None:
        try:
            return Space(str(said["crs"]), str(said["metric"]), bool(said["to_lonlat"]))
        except (KeyError, TypeError):
            raise StoreError(f"{home.changes.path(head.number if head else 0)} is damaged: it says no space") from None
    from dtoss.snapshots.manifest import space_of_manifest
    from dtoss.snapshots.store import Store

    store = Store(home.store)
    if store.head() is None and not store.snapshots():
        return None
    return space_of_manifest(store.manifest())


def check_space(home: Home, space: Space) -> None:
    """Check that rows of a watch are where its subscriptions are; nothing is ever transformed in silence."""
    head = home.changes.head() if home.asked.there() else None
    asked = None if head is None or head.document.get("space") is None else asked_space(home)
    if asked is not None and not _same(asked, space):
        raise InputError(
            f"the subscriptions of watch {home.name!r} are in {_named(asked)} and the rows in {_named(space)}: give "
            "the rows that --crs, or subscribe under another --watch with --crs"
        )


def _same(one: Space, other: Space) -> bool:
    return same_crs(one.crs, other.crs) and (one.metric, one.to_lonlat) == (other.metric, other.to_lonlat)


def _named(space: Space) -> str:
    return f"{space.crs} ({space.metric})"
