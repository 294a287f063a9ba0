"""The lists of faults fit the code as it is, and each fault has a test, or a reason why it needs none."""

from __future__ import annotations

import pytest

from tests.mutants.faults import LISTS, ROOT, VERDICTS, faults_of, judgements

FAULTS = [fault for kind in LISTS for fault in faults_of(kind)]
REASONS = {one.name: one.why for one in judgements() if one.verdict != "caught"}


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_can_be_made_and_its_tests_are_there(fault):
    source = (ROOT / fault.file).read_text()
    assert fault.applied(source) != source
    assert fault.tests or fault.name in REASONS
    for test in fault.tests:
        module, _, function = test.partition("[")[0].partition("::")
        assert not function or f"def {function}(" in (ROOT / module).read_text(), test


def test_each_drawn_fault_is_judged_once():
    assert [one.name for one in judgements()] == [fault.name for fault in faults_of("drawn")]
    assert {one.verdict for one in judgements()} <= set(VERDICTS)
    assert all(one.why.strip() for one in judgements())
