"""Manifests are valid by the published schemas, say what the plan says, and are the same bytes each time."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import ceps
from ceps import Patterns, ServerType
from ceps.rollout.kubernetes import FILES, PROCESS_BYTES, SECRET, write_manifests
from dtoss.serve.cluster.served_plans import read_placement
from tests.ceps.instances import servers, waves
from tests.ceps.rollout.pods import items_of

VERSION = "1.37"
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


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
    config = {key: text for item in by_kind["ConfigMap"] for key, text in item["data"].items()}
    (tmp_path / "plan.json").write_text(config["plan.json"])
    placement = read_placement(str(tmp_path / "plan.json"), plan.pivots_hash, len(plan.partitions))
    assert list(placement.holders) == [tuple(row) for row in plan.server_ids[plan.replicas].tolist()]
    peers = tomllib.loads(config["peers.toml"])
    assert [int(key) for key in peers if key != "token_file"] == plan.server_ids.tolist()
    spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    for k, number in enumerate(plan.server_ids.tolist()):
        item = sets[number]["spec"]
        assert (item["replicas"], item["serviceName"]) == (1, "city-index-pods")
        assert peers[str(number)] == f"http://city-index-{number}-0.city-index-pods:8080"
        pod = item["template"]["spec"]
        assert item["selector"]["matchLabels"].items() <= item["template"]["metadata"]["labels"].items()
        (container,) = pod["containers"]
        memory = int(container["resources"]["requests"]["memory"])
        assert plan.bytes[k] <= memory <= max(plan.bytes[k] + PROCESS_BYTES, plan.types[k].bytes)
        assert ("priorityClassName" in pod) == (k >= len(plan) - plan.spare)
        apart = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert apart[0]["topologyKey"] == "kubernetes.io/hostname"
        assert apart[0]["labelSelector"]["matchLabels"].items() <= item["template"]["metadata"]["labels"].items()
        assert len(apart) == 1 + (plan.zones is not None)
        if plan.zones is not None:
            zone = str(plan.zones[k])
            assert item["template"]["metadata"]["labels"]["dtoss.io/zone"] == zone
            assert apart[1]["topologyKey"] == "topology.kubernetes.io/zone"
            assert apart[1]["labelSelector"]["matchExpressions"][0]["values"] == [zone]
        else:
            (constraint,) = pod["topologySpreadConstraints"]
            assert constraint.pop("labelSelector")["matchLabels"].items() <= item["selector"]["matchLabels"].items()
            assert constraint == spread
    (budget,) = by_kind["PodDisruptionBudget"]
    assert budget["spec"]["maxUnavailable"] == plan.copies - 1
    before = [file.read_bytes() for file in files]
    again = write_manifests(plan, tmp_path / "other", name="city-index", image="registry/dtoss:1")
    assert [file.read_bytes() for file in again][: len(FILES)] == before[: len(FILES)]


def test_tokens_are_drawn_once_and_read_by_their_owner(tmp_path):
    """Each folder has others; another plan in a folder keeps them."""
    first = write_manifests(plan_of(), tmp_path / "one")[-1]
    drawn = first.read_bytes()
    assert first.name == SECRET
    assert first.stat().st_mode & 0o077 == 0
    write_manifests(plan_of("zones"), tmp_path / "one")
    assert first.read_bytes() == drawn
    assert write_manifests(plan_of(), tmp_path / "two")[-1].read_bytes() != drawn
    write_manifests(plan_of(), tmp_path / "one", name="other")
    assert {item["metadata"]["name"] for item in items_of(tmp_path / "one") if item["kind"] == "Secret"} == {
        "other-tokens"
    }


def test_the_schemas_refuse_what_is_wrong(tmp_path):
    """So that the check above is one."""
    validator = pytest.importorskip("kubernetes_validate", reason="the extra dev brings kubernetes-validate")
    write_manifests(plan_of(), tmp_path)
    item = next(item for item in items_of(tmp_path) if item["kind"] == "StatefulSet")
    del item["spec"]["selector"]
    with pytest.raises(validator.ValidationError):
        validator.validate(item, VERSION, strict=True)


def test_a_plan_too_large_for_a_config_map_is_refused(tmp_path):
    """80,000 partitions pass, 100,000 with long numbers do not, and nothing is written."""
    small = replace(
        plan_of(), partitions=np.arange(80_000), sizes=np.ones(80_000), replicas=np.tile([[0]], (80_000, 1))
    )
    write_manifests(small, tmp_path / "small")
    count = 100_000
    plan = replace(
        plan_of(), partitions=np.arange(count) + 2**40, sizes=np.ones(count), replicas=np.tile([[0, 1]], (count, 1))
    )
    with pytest.raises(
        ValueError, match=r"takes .* bytes for 100,000 partitions, a ConfigMap takes 1,048,576: rebuild"
    ):
        write_manifests(plan, tmp_path / "large")
    assert not (tmp_path / "large").exists()


def test_a_plan_by_the_hour_is_refused_unless_no_server_changes(tmp_path):
    """Mixed plans whose servers stay as they are can be said, with the way in which each is paid as a label."""
    plan = plan_of()
    steady = replace(plan, types_by_hour=np.tile(plan.type_of[:, None], 24), rented=("reserved",) * len(plan))
    write_manifests(steady, tmp_path / "steady")
    sets = [item for item in items_of(tmp_path / "steady") if item["kind"] == "StatefulSet"]
    assert {item["metadata"]["labels"]["dtoss.io/rented"] for item in sets} == {"reserved"}
    hourly = steady.types_by_hour.copy()
    hourly[1, 3] = (hourly[1, 3] + 1) % len(plan.servers)
    with pytest.raises(
        ValueError, match=r"server 1 of the plan changes its type by the hour .*: plan with --offer fix"
    ):
        write_manifests(replace(steady, types_by_hour=hourly), tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("store", ["", "/var/store", "Claim", "../up"])
def test_a_store_that_no_pod_finds_is_refused(store, tmp_path):
    """A folder of this machine is none."""
    with pytest.raises(ValueError, match="is nothing that pods find: write a URI such as s3://"):
        write_manifests(plan_of(), tmp_path, store=store)


def test_an_object_store_needs_no_volume(tmp_path):
    """Its keys come from a Secret, if there is one; a dollar in its URI stays one."""
    write_manifests(plan_of(), tmp_path, store="s3://bucket/store?a=$(POD)")
    (container,) = next(item for item in items_of(tmp_path) if item["kind"] == "StatefulSet")["spec"]["template"][
        "spec"
    ]["containers"]
    assert container["args"][:3] == ["serve", "--store", "s3://bucket/store?a=$$(POD)"]
    assert container["envFrom"] == [{"secretRef": {"name": "dtoss-store", "optional": True}}]
    assert [mount["name"] for mount in container["volumeMounts"]] == ["plan", "peers", "tokens"]


@pytest.mark.parametrize("name", ["", "Dtoss", "1dtoss", "dtoss-", "a" * 31, "a.b", "a_b"])
def test_names_that_kubernetes_refuses_are_refused(name, tmp_path):
    """Before anything is written."""
    with pytest.raises(ValueError, match="will not do in Kubernetes: a lower-case letter"):
        write_manifests(plan_of(), tmp_path / "none", name=name)
    assert not (tmp_path / "none").exists()
    with pytest.raises(ValueError, match="names no image"):
        write_manifests(plan_of(), tmp_path / "none", image=" ")
