"""A plan as manifests: a StatefulSet for each server that starts ``dtoss serve``, where it may run, who may be away."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from ceps.model.number_text import how_many
from ceps.plan.plans import Plan

FILES = ("config.json", "servers.json", "disruption.json")
"""What is written of a plan: JSON, which is YAML, so that ``kubectl apply -f FOLDER`` reads it."""

SECRET = "secret.json"
"""Tokens of readers and of servers, beside `FILES`: drawn once, and kept by those who write other plans there."""

MOST_NAME = 30
"""Characters of the name that all others begin with: with the number of a server and a pod's own they stay below 63."""

MOST_CONFIG = 1 << 20
"""Bytes that Kubernetes takes in one ConfigMap."""

PROCESS_BYTES = 512 << 20
"""Memory that a server is given beside its partitions."""

PORT = 8080
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_TYPE_LABEL = "node.kubernetes.io/instance-type"
_ZONE = "topology.kubernetes.io/zone"
_PLAN, _PEERS, _TOKENS, _STORE = "/etc/dtoss/plan", "/etc/dtoss/peers", "/etc/dtoss/tokens", "/store"


def write_manifests(
    plan: Plan, folder: str | Path, *, name: str = "dtoss", image: str = "dtoss", store: str = "dtoss-store"
) -> tuple[Path, ...]:
    """Write what Kubernetes needs to run a plan; return the files. The same plan gives the same bytes of `FILES`.

    Each server is a StatefulSet of its own with one pod, which runs ``dtoss serve --server N``: its number and its type
    stay its own when others are rented, resized or given back, as actions have it. The plan and where its servers are
    stand in two ConfigMaps, which servers read again when they change. Each pod has a node of the plan's type to
    itself. So copies of a partition stand on different nodes, and in different zones where the plan has zones; else
    pods are spread over zones as evenly as may be. A spare gives way to any other server that has no node. One
    PodDisruptionBudget lets as many servers be away as every partition has copies to spare: none where there is one.

    All carry the label `app.kubernetes.io/instance=NAME`, by which ``kubectl apply --prune`` finds what a later plan
    gives back.

    ``plan``: the plan; each server has one type for all hours; ``folder``: made if it is missing; `FILES` in it are
    replaced, `SECRET` is written where it is missing; ``name``: what all names begin with: lower-case letters, digits
    and hyphens, at most `MOST_NAME`.
    """
    check_names(name, image, store)
    _check_all_day(plan)
    claim, where = _store(store)
    config = [_pods_service(name), _clients_service(name), _plan_config(plan, name), _peers_config(plan, name)]
    if plan.spare:
        config.append(_priority(name))
    lists = (
        config,
        [_stateful_set(plan, k, name, image, claim, where) for k in range(len(plan))],
        [_disruption(plan, name)],
    )
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    for file, items in zip(FILES, lists, strict=True):
        _write(home / file, items)
    if not _has_tokens(home / SECRET, name):
        (home / SECRET).touch(0o600)
        _write(home / SECRET, [_secret(name)])
    return tuple(home / file for file in (*FILES, SECRET))


def check_names(name: str, image: str, store: str) -> None:
    """Refuse names that Kubernetes would."""
    if not _NAME.fullmatch(name) or len(name) > MOST_NAME:
        raise ValueError(
            f"name {name!r} will not do in Kubernetes: a lower-case letter, then at most {MOST_NAME - 1} of a-z, 0-9 "
            "and hyphens, no hyphen last"
        )
    if not image or any(character.isspace() for character in image):
        raise ValueError(f"image {image!r} names no image: write one such as registry/dtoss:0.1")
    _store(store)


def _write(file: Path, items: Sequence[dict[str, Any]]) -> None:
    content = {"apiVersion": "v1", "kind": "List", "items": items}
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _store(store: str) -> tuple[str | None, str]:
    """Return the claim that holds the store, None where none does, and what servers are told."""
    if "://" in store:
        return None, store
    claim, _, inside = store.partition("/")
    if not _NAME.fullmatch(claim):
        raise ValueError(
            f"store {store!r} is nothing that pods find: write a URI such as s3://bucket/store, or the name of a "
            "PersistentVolumeClaim, perhaps with a path in it, such as claim/city"
        )
    return claim, f"{_STORE}/{inside}".rstrip("/")


def _check_all_day(plan: Plan) -> None:
    """Refuse servers that change their types by the hour: a pod has one type of node."""
    if plan.types_by_hour is None:
        return
    for number, kinds in zip(plan.server_ids.tolist(), plan.types_by_hour.tolist(), strict=True):
        if len(set(kinds)) > 1:
            names = ", ".join(plan.servers[kind].name for kind in sorted(set(kinds)))
            raise ValueError(
                f"server {number} of the plan changes its type by the hour ({names}), and a manifest has one type for "
                "all hours: plan with --offer fixed, or resize by the actions of the plan"
            )


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


def _pods_service(name: str) -> dict[str, Any]:
    """Headless: it gives each pod a name, NAME-SERVER-0.NAME-pods, which others know before it is ready."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": _labels(name),
        "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(f"{name}-pods", name), "spec": spec}


def _clients_service(name: str) -> dict[str, Any]:
    """Of clients: any server that is ready takes any request."""
    spec = {"selector": _labels(name), "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(name, name), "spec": spec}


def _plan_config(plan: Plan, name: str) -> dict[str, Any]:
    """Return what servers read of a plan: who holds what. Loads by slot stay in the plan's own file."""
    whole = plan.to_dict()
    kept = ("format", "kind", "pivots_hash", "cost_per_day", "copies", "server_types", "partitions", "replicas")
    content = {key: whole[key] for key in kept}
    content["servers"] = [
        {key: one[key] for key in ("server", "type", "spare", "dollars_per_hour")} for one in whole["servers"]
    ]
    text = json.dumps(content, separators=(",", ":"))
    if len(text) + len("plan.json") > MOST_CONFIG:
        raise ValueError(
            f"what servers read of the plan takes {len(text):,} bytes for {how_many(len(plan.partitions), 'partition')}"
            f", a ConfigMap takes {MOST_CONFIG:,}: rebuild with fewer partitions"
        )
    return _config(f"{name}-plan", name, {"plan.json": text})


def _peers_config(plan: Plan, name: str) -> dict[str, Any]:
    lines = [f'token_file = "{_TOKENS}/peer"']
    lines += [f'{number} = "http://{name}-{number}-0.{name}-pods:{PORT}"' for number in plan.server_ids.tolist()]
    return _config(f"{name}-peers", name, {"peers.toml": "\n".join(lines) + "\n"})


def _config(name: str, instance: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(name, instance), "data": data}


def _secret(name: str) -> dict[str, Any]:
    """Tokens of readers and of servers; `reader` and `peer` hold each by itself."""
    reader, peer = token_hex(24), token_hex(24)
    data = {"tokens": f"reader {reader}\npeer {peer} peer\n", "reader": reader, "peer": peer}
    meta = _meta(f"{name}-tokens", name)
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "stringData": data}


def _has_tokens(file: Path, name: str) -> bool:
    """Return whether a file holds tokens for manifests of this name."""
    return file.exists() and f'"{name}-tokens"' in file.read_text(encoding="utf-8")


def _priority(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": _meta(f"{name}-spare", name),
        "value": -10,
        "description": "A spare server, which gives its node to another one that has lost its own.",
    }


def _arguments(number: int, name: str, store: str) -> list[str]:
    """Return what ``dtoss serve`` is told; the kubelet puts in what stands in $(...)."""
    hosts = [f"{name}{rest}" for rest in ("", ".$(NAMESPACE)", ".$(NAMESPACE).svc", ".$(NAMESPACE).svc.cluster.local")]
    hosts += [f"$(POD).{name}-pods{rest}" for rest in ("", ".$(NAMESPACE).svc.cluster.local")]
    return [
        "serve",
        *("--store", store.replace("$", "$$")),
        *("--plan", f"{_PLAN}/plan.json", "--server", str(number), "--peers", f"{_PEERS}/peers.toml"),
        *("--token-file", f"{_TOKENS}/tokens", "--host", "0.0.0.0", "--port", str(PORT), "--workers", "$(CPUS)"),
        *(word for host in hosts for word in ("--allow-host", host)),
    ]


def _container(plan: Plan, k: int, name: str, image: str, claim: str | None, store: str) -> dict[str, Any]:
    held, most = float(plan.bytes[k]) + PROCESS_BYTES, max(plan.types[k].bytes, float(plan.bytes[k]))
    mounts = [
        {"name": volume, "mountPath": path, "readOnly": True}
        for volume, path in (("plan", _PLAN), ("peers", _PEERS), ("tokens", _TOKENS))
    ]
    alive = {"httpGet": {"path": "/healthz", "port": "http"}}
    fields = (("POD", "metadata.name"), ("NAMESPACE", "metadata.namespace"))
    found: dict[str, Any] = {
        "name": "server",
        "image": image,
        "command": ["dtoss"],
        "args": _arguments(int(plan.server_ids[k]), name, store),
        "env": [
            *({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}} for variable, path in fields),
            # of a container without a limit these are the CPUs of the node
            {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ],
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": {"requests": {"memory": str(int(np.ceil(min(held, most))))}},
        # until kernels are compiled and files verified; then within a minute, and at once
        "startupProbe": {**alive, "periodSeconds": 2, "failureThreshold": 300},
        "livenessProbe": {**alive, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 2,
        },
        # clients go on asking until they have heard that it leaves
        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
        "volumeMounts": mounts,
    }
    if claim is None:
        found["envFrom"] = [{"secretRef": {"name": f"{name}-store", "optional": True}}]
    else:
        mounts.append({"name": "store", "mountPath": _STORE})
    return found


def _stateful_set(plan: Plan, k: int, name: str, image: str, claim: str | None, store: str) -> dict[str, Any]:
    number, kind = int(plan.server_ids[k]), plan.types[k]
    own = {"server": str(number), "server-type": label_value(kind.name)}
    if plan.zones is not None:
        own["zone"] = str(int(plan.zones[k]))
    if plan.rented:
        own["rented"] = plan.rented[k]
    volumes: list[dict[str, Any]] = [
        {"name": "plan", "configMap": {"name": f"{name}-plan"}},
        {"name": "peers", "configMap": {"name": f"{name}-peers"}},
        {"name": "tokens", "secret": {"secretName": f"{name}-tokens"}},
    ]
    if claim is not None:
        volumes.append({"name": "store", "persistentVolumeClaim": {"claimName": claim}})
    pod = {
        "affinity": _affinity(plan, k, name),
        "terminationGracePeriodSeconds": 15,
        "containers": [_container(plan, k, name, image, claim, store)],
        "volumes": volumes,
    }
    if plan.zones is None:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": _ZONE,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _labels(name)},
            }
        ]
    if k >= len(plan) - plan.spare:
        pod["priorityClassName"] = f"{name}-spare"
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _meta(f"{name}-{number}", name, **own),
        "spec": {
            "replicas": 1,
            "serviceName": f"{name}-pods",
            # sets do not wait for one another: all would be away at once
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": _labels(name, server=str(number))},
            "template": {"metadata": {"labels": _labels(name, **own)}, "spec": pod},
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
