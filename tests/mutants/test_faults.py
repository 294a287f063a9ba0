"""The lists of faults fit the code as it is: a fault that cannot be made any more proves nothing."""

from __future__ import annotations

import pytest

from tests.mutants.faults import LISTS, ROOT, faults_of

FAULTS = [fault for kind in LISTS for fault in faults_of(kind)]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_can_be_made_and_its_tests_are_there(fault):
    source = (ROOT / fault.file).read_text()
    assert fault.applied(source) != source
    assert fault.tests or not fault.name.startswith("hand")
    for test in fault.tests:
        module, _, function = test.partition("[")[0].partition("::")
        assert not function or f"def {function}(" in (ROOT / module).read_text(), test
