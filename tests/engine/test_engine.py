"""Running tasks in processes: order, errors, deaths and interruptions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tasks
from conftest import ROOT
from pictures import class_tree
from waiting import is_running, wait_for

from imgrec.engine.local import LocalEngine
from imgrec.errors import BadImage, ExecutionError

pytestmark = pytest.mark.processes


def test_every_task_is_done_once() -> None:
    with LocalEngine(3) as engine:
        assert sorted(engine.run(tasks.double, range(100))) == [2 * n for n in range(100)]


def test_an_engine_runs_again() -> None:
    with LocalEngine(2) as engine:
        assert list(engine.run(tasks.double, [1])) == [2]
        assert list(engine.run(tasks.double, [2])) == [4]


def test_tasks_are_taken_only_as_workers_get_to_them() -> None:
    taken = []

    def source():  # type: ignore[no-untyped-def]
        for number in range(100):
            taken.append(number)
            yield number

    with LocalEngine(2) as engine:
        results = engine.run(tasks.double, source())
        next(results)
        assert len(taken) <= 6  # at hand, in the pipe, and one to come


def test_what_a_task_prints_does_not_mix_with_its_result(capfd: pytest.CaptureFixture[str]) -> None:
    with LocalEngine(1) as engine:
        assert list(engine.run(tasks.print_something, [7])) == [7]
    assert capfd.readouterr() == ("", "")


def test_an_error_of_ours_comes_back_as_it_is() -> None:
    with LocalEngine(2) as engine, pytest.raises(BadImage) as caught:
        list(engine.run(tasks.raise_ours, [1]))
    assert (str(caught.value), caught.value.hint, caught.value.path) == ("what", "do", "where")


def test_any_other_exception_is_an_execution_error_that_says_where() -> None:
    with (
        LocalEngine(2) as engine,
        pytest.raises(ExecutionError, match=r"KeyError: 'x' .*tasks\.py:\d+"),
    ):
        list(engine.run(tasks.raise_other, [1]))


def test_a_killed_worker_ends_the_run_with_a_clear_error() -> None:
    with LocalEngine(2) as engine, pytest.raises(ExecutionError) as caught:
        list(engine.run(tasks.kill_itself, range(10)))
    assert str(caught.value) == "a worker process died by SIGKILL"
    assert caught.value.hint.startswith("run it again, with fewer --workers if memory ran out")


def test_the_last_words_of_a_dying_worker_are_in_the_error() -> None:
    with LocalEngine(1) as engine, pytest.raises(ExecutionError, match=r"exit code 3: farewell"):
        list(engine.run(tasks.leave, [1]))


def test_closing_a_run_that_no_one_has_asked_stops_its_workers(tmp_path: Path) -> None:
    with LocalEngine(1) as engine:
        running = engine.run(tasks.note_pid_and_sleep, [str(tmp_path)])
        wait_for(lambda: any(tmp_path.iterdir()))
        running.close()
        assert not any(is_running(int(path.name)) for path in tmp_path.iterdir())


def test_a_worker_does_not_print_to_what_the_parent_has_put_in_the_place_of_its_output(
    tmp_path: Path,
) -> None:
    code = (
        "import contextlib, tasks\n"
        "from imgrec.engine.local import LocalEngine\n"
        f"with open({str(tmp_path / 'out')!r}, 'w') as out, contextlib.redirect_stdout(out):\n"
        "    with LocalEngine(1) as engine:\n"
        "        print(list(engine.run(tasks.print_something, [7])))\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests/support'}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert (tmp_path / "out").read_text() == "[7]\n"


def test_workers_end_in_the_middle_of_a_task_when_their_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "from imgrec.engine.local import LocalEngine; import tasks\n"
        "with LocalEngine(2) as engine:\n"
        f"    list(engine.run(tasks.note_pid_and_sleep, [{str(tmp_path)!r}] * 50))\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests/support'}"}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
    parent.kill()
    parent.wait()
    pids = [int(path.name) for path in tmp_path.iterdir()]
    wait_for(lambda: not any(map(is_running, pids)))


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "flowers", {"rose": 2, "tulip": 1})
    script = tmp_path / "script.py"
    script.write_text(
        "import imgrec\n"
        f"options = imgrec.PackOptions(data_dir={str(tmp_path / 'out')!r}, workers=2)\n"
        f"print(imgrec.pack({str(source)!r}, options).info.name)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], env=environment, text=True, capture_output=True)
    assert (done.stdout, done.stderr) == ("flowers\n", "")
