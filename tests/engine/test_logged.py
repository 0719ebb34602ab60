"""What workers log arrives where they were started."""

from __future__ import annotations

import logging

import pytest
import tasks

from imgrec.engine.local import LocalEngine


@pytest.mark.processes
def test_what_a_worker_logs_is_logged_by_its_parent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "imgrec"), LocalEngine(2) as engine:
        assert sorted(engine.run(tasks.log, range(3))) == [0, 1, 2]
    found = {(record.name, record.getMessage()) for record in caplog.records}
    assert found >= {("imgrec.tests", f"100% of {number}") for number in range(3)}


@pytest.mark.processes
def test_nothing_is_printed_unless_the_caller_asks(capfd: pytest.CaptureFixture[str]) -> None:
    with LocalEngine(1) as engine:
        list(engine.run(tasks.log, [1]))
    assert capfd.readouterr() == ("", "")
