"""A plan as manifests: a StatefulSet for each server, where it may run, what it holds, and how many may be away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ceps.plans import Plan

FILES = ("config.json", "servers.json", "disruption.json")
"""What is written: JSON, which is YAML, so that ``kubectl apply -f FOLDER`` reads it."""

MOST_NAME = 30
"""Characters of the name that all others begin with: with the number of a server and a pod's own they stay below 63."""

MOST_CONFIG = 900_000
"""Bytes of one ConfigMap; Kubernetes takes 1 MiB."""

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_TYPE_LABEL = "node.kubernetes.io/instance-type"
_ZONE = "topology.kubernetes.io/zone"


def write_manifests(plan: Plan, folder: str | Path, *, name: str = "dtoss", image: str = "dtoss") -> tuple[Path, ...]:
    """Write what Kubernetes needs to run a plan; return the files. The same plan gives the same bytes.

    Each server is a StatefulSet of its own with one pod: its number, its volume and its type stay its own when others
    are rented, resized or given back, as actions have it. Each pod has a node of the plan's type to itself. So copies
    of a partition stand on different nodes, and in different zones where the plan has zones. One PodDisruptionBudget
    lets as many servers be away as every partition has copies to spare: none where there is one copy.

    A ConfigMap a server says which partitions it holds, and others, `NAME-placement-0` on, which servers hold each
    partition. All carry the label `app.kubernetes.io/instance=NAME`, by which ``kubectl apply --prune`` finds what a
    later plan gives back. Of a plan by the hour the dearest type of each server stands here.

    Parameters
    ----------
    plan
        The plan.
    folder
        Made if it is missing; `FILES` in it are replaced.
    name
        What all names begin with: lower-case letters, digits and hyphens, at most `MOST_NAME`.
    image
        The container's image. It finds its server's partitions in /etc/dtoss/partitions.json, data in /data.

    Raises
    ------
    ValueError
        `name` is no such name, or `image` is empty.
    """
    if not _NAME.fullmatch(name) or len(name) > MOST_NAME:
        raise ValueError(
            f"name {name!r} will not do in Kubernetes: a lower-case letter, then at most {MOST_NAME - 1} of a-z, 0-9 "
            "and hyphens, no hyphen last"
        )
    if not image or any(character.isspace() for character in image):
        raise ValueError(f"image {image!r} names no image: write one such as registry/dtoss:0.1")
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    ranks = range(len(plan))
    lists = (
        [_service(name), *(_held(plan, k, name) for k in ranks), *_placement(plan, name)],
        [_stateful_set(plan, k, name, image) for k in ranks],
        [_disruption(plan, name)],
    )
    for file, items in zip(FILES, lists, strict=True):
        content = {"apiVersion": "v1", "kind": "List", "items": items}
        (home / file).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return tuple(home / file for file in FILES)


def _labels(name: str, **more: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "dtoss",
        "app.kubernetes.io/instance": name,
        **{f"dtoss.io/{key}": value for key, value in more.items()},
    }


def _meta(name: str, instance: str, **more: str) -> dict[str, Any]:
    return {"name": name, "labels": _labels(instance, **more)}


def label_value(text: str) -> str:
    """Text as the value of a label: what is not allowed becomes a hyphen, and it ends after 63 characters.

    Examples
    --------
    >>> label_value("m7g.large"), label_value('my "big" box'), label_value("--")
    ('m7g.large', 'my--big--box', '')
    """
    return re.sub(r"[^-A-Za-z0-9_.]", "-", text)[:63].strip("-_.")


def _service(name: str) -> dict[str, Any]:
    """Headless: it gives each pod a name, NAME-SERVER-0.NAME."""
    spec = {"clusterIP": "None", "selector": _labels(name), "ports": [{"name": "http", "port": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(name, name), "spec": spec}


def _held(plan: Plan, k: int, name: str) -> dict[str, Any]:
    number = int(plan.server_ids[k])
    content = {
        "server": number,
        "pivots_hash": plan.pivots_hash,
        "partitions": plan.partitions[plan.members(k)].tolist(),
    }
    return _config(f"{name}-{number}", name, {"partitions.json": json.dumps(content)}, server=str(number))


def _placement(plan: Plan, name: str) -> Iterator[dict[str, Any]]:
    """Partition -> numbers of its servers, in as many ConfigMaps as it takes."""
    rows = [
        f"{json.dumps(str(partition))}: {json.dumps(servers)}"
        for partition, servers in zip(plan.partitions.tolist(), plan.server_ids[plan.replicas].tolist(), strict=True)
    ]
    ends = np.cumsum([len(row) + 2 for row in rows], dtype=np.int64)
    parts = ends // MOST_CONFIG
    for part in range(int(parts.max(initial=0)) + 1):
        some = [rows[at] for at in np.flatnonzero(parts == part).tolist()]
        yield _config(f"{name}-placement-{part}", name, {"placement.json": "{" + ", ".join(some) + "}"})


def _config(name: str, instance: str, data: dict[str, str], **more: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(name, instance, **more), "data": data}


def _stateful_set(plan: Plan, k: int, name: str, image: str) -> dict[str, Any]:
    number, kind = int(plan.server_ids[k]), plan.types[k]
    own = {"server": str(number), "server-type": label_value(kind.name)}
    if plan.zones is not None:
        own["zone"] = str(int(plan.zones[k]))
    room = kind.bytes if np.isfinite(kind.bytes) else max(float(plan.bytes[k]), 1e9)
    pod = {
        "affinity": _affinity(plan, k, name),
        "containers": [
            {
                "name": "server",
                "image": image,
                "env": [{"name": "DTOSS_SERVER", "value": str(number)}],
                "ports": [{"name": "http", "containerPort": 8080}],
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"},
                    {"name": "partitions", "mountPath": "/etc/dtoss", "readOnly": True},
                ],
            }
        ],
        "volumes": [{"name": "partitions", "configMap": {"name": f"{name}-{number}"}}],
    }
    claim = {
        "metadata": {"name": "data", "labels": _labels(name, server=str(number))},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": str(int(np.ceil(room)))}},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _meta(f"{name}-{number}", name, **own),
        "spec": {
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": _labels(name, server=str(number))},
            "template": {"metadata": {"labels": _labels(name, **own)}, "spec": pod},
            "volumeClaimTemplates": [claim],
        },
    }


def _affinity(plan: Plan, k: int, name: str) -> dict[str, Any]:
    """Return where a pod may be: a node of the type, without another server, in no zone of another of the plan's."""
    wanted = {"key": _TYPE_LABEL, "operator": "In", "values": [label_value(plan.types[k].name)]}
    apart = [{"labelSelector": {"matchLabels": _labels(name)}, "topologyKey": "kubernetes.io/hostname"}]
    if plan.zones is not None:
        others = {"key": "dtoss.io/zone", "operator": "NotIn", "values": [str(int(plan.zones[k]))]}
        selector = {"matchLabels": _labels(name), "matchExpressions": [others]}
        apart.append({"labelSelector": selector, "topologyKey": _ZONE})
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart},
    }


def _disruption(plan: Plan, name: str) -> dict[str, Any]:
    spec = {"maxUnavailable": max(plan.copies - 1, 0), "selector": {"matchLabels": _labels(name)}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _meta(f"{name}-copies", name),
        "spec": spec,
    }
