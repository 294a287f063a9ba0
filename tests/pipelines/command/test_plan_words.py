"""What `dtoss plan` prints: dollars that add up, the offers, and the decision in a few lines."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

import ceps
from ceps import Patterns
from pipelines.plan import SHOWN, day_dollars, server_rows, summary
from tests.ceps.instances import waves

CATALOGUE = """
date = "2026-01-02"
[[server]]
name = "m"
requests_per_second = 500
bytes = inf
dollars_per_hour = 0.0408
reserved_dollars_per_hour = 0.0257
reserved_upfront_share = 0.5
[[server]]
name = "l"
requests_per_second = 1000
bytes = inf
dollars_per_hour = 0.0816
reserved_dollars_per_hour = 0.0514
reserved_upfront_share = 0.5
"""


@pytest.fixture
def files(tmp_path):
    """Noisy patterns of a week, and a catalogue with reserved prices."""
    day = waves(30, 4_000.0)
    noisy = replace(
        day, loads=np.concatenate([day.loads * factor for factor in (1, 1, 1, 1, 1.1, 1, 1)], axis=1),
        slot_seconds=3_600, days=4.0, requests_per_event=2e5, pivots_hash="0123456789abcdef",
    )  # fmt: skip
    mean = replace(noisy, loads=noisy.loads.reshape(30, 7, 24).mean(axis=1), slot_seconds=3_600)
    days = [replace(mean, loads=noisy.loads[:, 24 * k : 24 * k + 24], weekday=k) for k in range(7)]
    ceps.write_patterns(tmp_path / "patterns.parquet", [mean, *days])
    (tmp_path / "servers.toml").write_text(CATALOGUE)
    return tmp_path / "patterns.parquet", tmp_path / "servers.toml"


@pytest.mark.parametrize("offer", ["fixed", "hourly", "mixed", "auto"])
def test_dollars_add_up(files, offer):
    """Each server's dollars as they are printed, and the line below them: exactly the cost of the day."""
    patterns, types = ceps.read_patterns(files[0]), ceps.load_servers(files[1])
    made = ceps.rent(patterns, None, types, offer=offer)
    rows = server_rows(made)
    assert sum(Decimal(row[-1]) for row in rows[1:-1]) == Decimal(rows[-1][-1])
    assert float(rows[-1][-1]) == pytest.approx(made.cost_per_day, abs=5e-4)
    assert sum(int(row[2]) for row in rows[1:-1]) == int(rows[-1][2]) == 30
    assert f"${rows[-1][-1]} a day" in dict(summary(made, None))["cost"]


def test_dollars_of_many_servers_add_up():
    """Also where only the first are listed, and where no number of digits shows each price as it is."""
    kind = ceps.ServerType("third", 100.0, np.inf, 1 / 3)
    made = ceps.plan(Patterns(loads=np.full((SHOWN + 21, 24), 80.0)), None, [kind])
    odd = replace(made, paid=np.full(len(made), 100 / 7), cost_per_day=len(made) * 100 / 7)
    for plan in (made, odd):
        rows = server_rows(plan)
        assert len(rows) == 1 + SHOWN + 2
        assert sum(Decimal(row[-1]) for row in rows[1:-1]) == Decimal(rows[-1][-1])
        assert sum(int(row[2]) for row in rows[1:-1]) == int(rows[-1][2])
    assert day_dollars(made)[1] == f"{made.cost_per_day:.3f}"


def test_the_decision_stands_in_a_few_lines(files, tmp_path, works):
    """What to rent, one number and its range, what is late, what is safer, what is saved, and what to type next."""
    out = tmp_path / "my plan.json"
    said = works("plan", files[0], "--servers", files[1], "--out", out, "--offer", "auto").out
    lines = [" ".join(line.split()) for line in said.splitlines()]
    made = ceps.load_plan(out)
    best = next(offer for offer in made.offers if offer.recommended)

    def line(word):
        return next(text for text in lines if text.startswith(f"{word} "))

    assert line("rent").startswith(f"rent {len(made)} servers")
    assert "reserved for a year" in line("rent")
    assert f"${made.cost_per_month:,.2f} a month" in line("cost")
    low, high = (cost * 730 / 24 for cost in (best.low_cost_per_day, best.high_cost_per_day))
    assert f"Had other days been observed, it would be ${low:,.2f} to ${high:,.2f}." in lines
    assert "% of the requests expected late on" in line("late")
    assert "a month for" in line("safer")
    assert "--risk " in said
    assert line("saved").startswith("saved placing saves $")
    assert any(text.startswith("reserving for a year saves $") for text in lines)
    assert f"dtoss report '{out}' --out" in "".join(lines).replace("\n", "")
    table = [text for text in lines if text.startswith(("* ", "a ", "servers resized", "reserved servers"))]
    assert len(table) >= len(made.offers)
    assert "0.15 of the requests" not in said


def test_an_offer_for_more_risk_names_its_price(files, tmp_path, command):
    """The nearest share that can be had, and what it costs, in one line."""
    line = command.fails("plan", files[0], "--servers", files[1], "--out", tmp_path / "p.json", "--risk", "1e-13")
    assert "is within risk 1e-13: the least is" in line
    assert "% late on" in line
    assert "a month" in line


def test_how_long_a_proof_was_looked_for(tmp_path):
    """Where cost and bound have not met, the line says for how many seconds."""
    from pipelines.plan import bound_text

    made = ceps.plan(
        np.full((3, 24), 600.0), np.zeros(3), (ceps.ServerType("a", 1000.0, np.inf, 1.0),), utilisation=1.0
    )
    above = replace(made, lower_bound=0.9 * made.cost_per_day, extras={**made.extras, "proof_seconds": 5.0})
    assert bound_text(above).endswith("a cheaper plan was looked for 5 s (--prove)")
    assert "looked" not in bound_text(replace(above, extras={}))
