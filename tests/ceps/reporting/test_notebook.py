"""A plan in a notebook: a table of text, and pictures of what its servers do by the hour."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import ceps
from ceps import ServerType
from tests.ceps.instances import servers, waves
from tests.shown_html import html_of

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402

HOSTILE = "<script>alert('1')</script>$x$_" + "y" * 200


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def plan():
    return ceps.plan(waves(40, 60_000.0, slots=48), None, servers(), utilisation=0.9, method="gain")


def test_the_table_says_what_it_costs_and_what_each_server_does(plan):
    """And lists the first ten servers only."""
    page = html_of(plan)
    assert f"${plan.cost_per_month:,.2f} a month" in page
    assert f"<td>{plan.peaks[0]:,.1f}</td>" in page
    assert page.count("<table>") == 2
    many = ceps.plan(waves(400, 100_000.0), None, servers()[:1], utilisation=0.9, method="gain")
    assert len(many) > 100
    assert f"{len(many)} servers; the first 10" in html_of(many)
    assert html_of(many).count("<tr>") == 1 + 5 + 1 + 10


def test_names_stay_text(plan):
    """Of types and methods, in the table and in the pictures."""
    kinds = tuple(replace(kind, name=HOSTILE + kind.name) for kind in plan.servers)
    hostile = replace(plan, servers=kinds, method=HOSTILE)
    page = html_of(hostile)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    for what in ("servers", "requests"):
        hostile.plot(what).figure.canvas.draw()


def test_shades_are_the_shares_of_each_hour(plan):
    """The largest of its slots; a row for each server, in their order."""
    ax = plan.plot()
    shown = ax.images[0].get_array()
    share = plan.utilisation_by_slot.reshape(len(plan), 24, 2).max(axis=2)
    assert np.allclose(shown, share)
    assert np.allclose(plan.busy(), share)
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        f"server {number} ({kind.name})" for number, kind in zip(plan.server_ids, plan.types, strict=True)
    ]
    assert ax.get_xlabel() == "hour of the day"
    ax.figure.canvas.draw()


def test_a_week_of_many_servers(plan):
    """The fullest 32, and days for hours; above its capacity the legend says so."""
    busy = ceps.plan(waves(400, 60_000.0, slots=168), None, servers()[:1], utilisation=0.9, method="gain")
    assert len(busy) > 32
    ax = busy.plot()
    assert ax.images[0].get_array().shape == (32, 168)
    assert ax.get_title(loc="left") == f"How busy the 32 fullest of {len(busy)} servers are by the hour of the week"
    assert [label.get_text() for label in ax.get_xticklabels()][:2] == ["Mon", "Tue"]
    late = replace(plan, loads=plan.loads * 2)
    late.plot().figure.canvas.draw()
    assert late.plot().figure.axes[-1].get_ylabel() == "share of capacity, red above it"


def test_requests_lie_on_one_another_below_what_is_rented(plan):
    """The last stair is the capacity, the one before it the sum of all loads."""
    ax = plan.plot("requests")
    *loads, capacity = ax.patches
    assert np.allclose(loads[-1].get_data().values, plan.loads.sum(axis=0))
    assert np.allclose(capacity.get_data().values, plan.capacity_by_slot.sum(axis=0))
    own = pyplot.subplots()[1]
    assert plan.plot("requests", ax=own) is own
    own.figure.canvas.draw()


def test_what_cannot_be_drawn_is_said(plan, monkeypatch):
    with pytest.raises(ValueError, match="what is 'costs': servers or requests are wanted"):
        plan.plot("costs")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"plan.plot\(\) needs matplotlib: pip install 'dtoss\[plot\]'"):
        plan.plot()


def test_a_plan_without_servers_has_a_picture():
    """Nothing is asked and nothing is rented."""
    none = ceps.plan(ceps.Patterns(loads=np.zeros((0, 24))), None, (ServerType("a", 1.0, 1.0, 1.0),))
    assert len(none) == 0
    for what in ("servers", "requests"):
        none.plot(what).figure.canvas.draw()
    assert "0 servers" in html_of(none)
