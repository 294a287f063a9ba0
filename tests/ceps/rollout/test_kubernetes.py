"""Manifests are valid by the published schemas, say what the plan says, and are the same bytes each time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import ceps
from ceps import Patterns, ServerType
from ceps.rollout.kubernetes import FILES, MOST_CONFIG, write_manifests
from tests.ceps.instances import servers, waves

VERSION = "1.37"
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def items_of(folder):
    return [item for file in FILES for item in json.loads((folder / file).read_text())["items"]]


def labels_in(node):
    """Every set of labels in a manifest, those of selectors too."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("labels", "matchLabels", "selector") and all(isinstance(v, str) for v in value.values()):
                yield value
            yield from labels_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from labels_in(value)


@cache
def plan_of(what="copies"):
    """With copies and a spare; with zones; odd names of types and the largest number of a server; nothing at all."""
    patterns = waves(30, 9_000.0)
    if what == "odd names":
        odd = (ServerType('my "big" box, of 2024 ' + "x" * 80, 1e5, np.inf, 0.0),)
        pins = np.full(30, -1)
        pins[0] = 2**53
        return ceps.plan(patterns, None, odd, pinned=pins)
    if what == "empty":
        return ceps.plan(Patterns(np.zeros((0, 24))), None, servers())
    copied = ceps.plan(replace(patterns, pivots_hash="abc"), None, servers(8e9), copies=2, spare=True)
    return replace(copied, zones=np.arange(len(copied)) % 2) if what == "zones" else copied


@pytest.mark.parametrize("what", ["copies", "zones", "odd names", "empty"])
def test_manifests_are_valid_and_say_what_the_plan_says(what, tmp_path):
    """Schemas of Kubernetes, names and labels by its rules, and each figure of the plan."""
    validator = pytest.importorskip("kubernetes_validate", reason="the extra dev brings kubernetes-validate")
    plan = plan_of(what)
    files = write_manifests(plan, tmp_path / "made" / "here", name="city-index", image="registry/dtoss:1")
    items = items_of(files[0].parent)
    for item in items:
        validator.validate(item, VERSION, strict=True)
        assert SUBDOMAIN.fullmatch(item["metadata"]["name"])
        assert len(item["metadata"]["name"]) <= 52
        for labels in labels_in(item):
            assert labels["app.kubernetes.io/instance"] == "city-index"
            for key, value in labels.items():
                assert LABEL.fullmatch(value), value
                assert max(len(value), len(key.rpartition("/")[2])) <= 63
    names = [(item["kind"], item["metadata"]["name"]) for item in items]
    assert len(set(names)) == len(names)
    by_kind = {kind: [item for item in items if item["kind"] == kind] for kind, _ in names}
    sets = {int(item["metadata"]["labels"]["dtoss.io/server"]): item for item in by_kind.get("StatefulSet", [])}
    assert sorted(sets) == plan.server_ids.tolist()
    held = {}
    placement = {}
    for item in by_kind["ConfigMap"]:
        if "placement.json" in item["data"]:
            placement |= json.loads(item["data"]["placement.json"])
        else:
            held[item["metadata"]["name"]] = json.loads(item["data"]["partitions.json"])
    for k, number in enumerate(plan.server_ids.tolist()):
        item = sets[number]["spec"]
        assert (item["replicas"], item["serviceName"]) == (1, "city-index")
        pod = item["template"]["spec"]
        here = held[pod["volumes"][0]["configMap"]["name"]]
        assert here == {
            "server": number, "pivots_hash": plan.pivots_hash, "partitions": plan.partitions[plan.members(k)].tolist(),
        }  # fmt: skip
        assert item["selector"]["matchLabels"].items() <= item["template"]["metadata"]["labels"].items()
        (storage,) = [claim["spec"]["resources"]["requests"]["storage"] for claim in item["volumeClaimTemplates"]]
        assert int(storage) >= plan.bytes[k]
        assert plan.types[k].bytes == np.inf or int(storage) == plan.types[k].bytes
        apart = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert apart[0]["topologyKey"] == "kubernetes.io/hostname"
        assert apart[0]["labelSelector"]["matchLabels"].items() <= item["template"]["metadata"]["labels"].items()
        assert len(apart) == 1 + (plan.zones is not None)
        if plan.zones is not None:
            zone = str(plan.zones[k])
            assert item["template"]["metadata"]["labels"]["dtoss.io/zone"] == zone
            assert apart[1]["topologyKey"] == "topology.kubernetes.io/zone"
            assert apart[1]["labelSelector"]["matchExpressions"][0]["values"] == [zone]
    assert {int(p): numbers for p, numbers in placement.items()} == dict(
        zip(plan.partitions.tolist(), plan.server_ids[plan.replicas].tolist(), strict=True)
    )
    (budget,) = by_kind["PodDisruptionBudget"]
    assert budget["spec"]["maxUnavailable"] == plan.copies - 1
    before = [file.read_bytes() for file in files]
    assert [
        file.read_bytes() for file in write_manifests(plan, tmp_path, name="city-index", image="registry/dtoss:1")
    ] == before


def test_the_schemas_refuse_what_is_wrong(tmp_path):
    """So that the check above is one."""
    validator = pytest.importorskip("kubernetes_validate", reason="the extra dev brings kubernetes-validate")
    write_manifests(plan_of(), tmp_path)
    item = next(item for item in items_of(tmp_path) if item["kind"] == "StatefulSet")
    del item["spec"]["selector"]
    with pytest.raises(validator.ValidationError):
        validator.validate(item, VERSION, strict=True)


def test_a_placement_too_large_for_one_config_map_is_split(tmp_path):
    """100,000 partitions with long numbers, each in one of the maps, none above the limit."""
    count = 100_000
    plan = replace(
        plan_of(), partitions=np.arange(count) + 2**40, sizes=np.ones(count), replicas=np.tile([[0, 1]], (count, 1))
    )
    write_manifests(plan, tmp_path)
    maps = [item for item in items_of(tmp_path) if item["metadata"]["name"].startswith("dtoss-placement-")]
    assert len(maps) > 2
    found = {}
    for item in maps:
        text = item["data"]["placement.json"]
        assert len(text) <= MOST_CONFIG + 100
        found |= json.loads(text)
    assert len(found) == count


@pytest.mark.parametrize("name", ["", "Dtoss", "1dtoss", "dtoss-", "a" * 31, "a.b", "a_b"])
def test_names_that_kubernetes_refuses_are_refused(name, tmp_path):
    """Before anything is written."""
    with pytest.raises(ValueError, match="will not do in Kubernetes: a lower-case letter"):
        write_manifests(plan_of(), tmp_path / "none", name=name)
    assert not (tmp_path / "none").exists()
    with pytest.raises(ValueError, match="names no image"):
        write_manifests(plan_of(), tmp_path / "none", image=" ")
