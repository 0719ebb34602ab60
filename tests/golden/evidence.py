"""What a pack writes and what commands answer, as facts that can be compared for ever.

Run as a script, this records the evidence anew: `python tests/golden/evidence.py [CASE ...]`.
Do so only for a change of output that is meant, and say why in the commit.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent))
from sources import CASES, Case

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXPECTED = HERE / "expected.json"
_PROSE = ("reason", "layout", "hint", "message", "title", "code", "load", "form")
"""Keys of JSON whose values are words for people."""
_COUNTED = ("warnings", "faults", "notes", "not_checked")
"""Keys of JSON with lists of sentences: only their number is a fact."""
_VOLATILE = ("seconds", "python", "imgrec", "packages", "kept_shards", "schema")
"""Keys of JSON that depend on the machine or on the version of imgrec."""
_ONE = ("--workers", "1")
"""Starting more processes takes longer than most commands here."""
_PAGES = ("report.html", "SHA256SUMS")
"""Files that hold no facts of their own."""


def libraries() -> dict[str, str]:
    """Return the versions of the libraries that decide how bytes are encoded."""
    return {name: version(name) for name in ("pyarrow", "pillow", "array_record")}


def gather(case: Case, folder: Path, *, engine: Sequence[str] = ()) -> dict[str, object]:
    """Pack a case below `folder`, and return its evidence."""
    here, name = folder / "source", "golden"
    here.mkdir(parents=True)
    case.make(here)
    fill = {"here": str(here), "name": name}

    def run(*arguments: str) -> tuple[int, object]:
        return _run([part.format(**fill) for part in arguments], folder)

    options = ["--name", name, *case.options]
    source = str(here / case.source)
    is_table = "--manifest" in case.options and case.source == "."
    given = [*([] if is_table else [source]), *options, "--json"]
    answers = {
        "plan": run("plan", *given, *_ONE),
        "pack": run("pack", *given, "--quiet", *(engine or _ONE)),
    }
    dataset = folder / "data" / name / "1.0.0"
    if not dataset.exists():
        return {"answers": answers, "files": {}}
    answers["verify"] = run("verify", name, *_ONE, "--json")
    answers["unpack"] = run("unpack", name, "{here}/../unpacked", *_ONE, "--json")
    answers |= {command[0]: run(*command) for command in case.extra}
    if "report" in answers:  # how the page is drawn, and so its size, is not a fact
        del answers["report"][1]["bytes"]  # type: ignore[attr-defined]
    answers["pack again"] = run("pack", *given, "--quiet", *_ONE)
    files = dict(_hashes(dataset))
    files["unpacked"] = _digest(sorted(_hashes(folder / "unpacked")))
    if (folder / "submission.csv").exists():
        files["submission.csv"] = _sha256(folder / "submission.csv")
    return {"answers": answers, "files": files}


def _run(arguments: Sequence[str], folder: Path) -> tuple[int, object]:
    """Run a command; return its exit code and the facts in its JSON."""
    variables = {"TFDS_DATA_DIR": str(folder / "data"), "HOME": str(folder / "home")}
    order = {"arguments": list(arguments), "folder": str(folder), "variables": variables}
    server = _server()
    assert server.stdin and server.stdout
    print(json.dumps(order), file=server.stdin, flush=True)
    code = int(server.stdout.readline())
    printed, complaint = ((folder / name).read_text() for name in ("out.txt", "err.txt"))
    assert "Traceback" not in complaint, complaint
    answer = json.loads(printed) if printed.startswith("{") else None
    return code, _facts(answer, str(folder))


@cache
def _server() -> subprocess.Popen[str]:
    """Start a process that forks for each command: imports take longer than most commands."""
    return subprocess.Popen(
        [sys.executable, HERE / "fork_server.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _facts(value: object, folder: str) -> object:
    """Leave out of JSON what is worded, or differs between machines."""
    if isinstance(value, Mapping):
        return {
            key: len(item) if key in _COUNTED else _facts(item, folder)
            for key, item in value.items()
            if key not in _PROSE and key not in _VOLATILE
        }
    if isinstance(value, list):
        return [_facts(item, folder) for item in value]
    return value.replace(folder, "<folder>") if isinstance(value, str) else value


def _hashes(root: Path) -> Iterator[tuple[str, str]]:
    """Yield what identifies each file below `root`; for Parquet, its rows as well."""
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_dir() or name in _PAGES:
            continue
        if name == "report.json":
            yield name, _digest(_facts(json.loads(path.read_text()), ""))
        elif name == "skipped.csv":
            yield name, _digest([row["file"] for row in csv.DictReader(path.open(newline=""))])
        else:
            yield name, _sha256(path)
        if name == "samples.parquet":
            table = pq.read_table(path)
            yield f"{name} rows", _digest([str(table.schema), table.to_pydict()])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def comparable(evidence: Mapping[str, object], case: Case, recorded: Mapping[str, str]) -> object:
    """Return what must be equal to the record, with the libraries that are installed.

    Other versions of a library may encode the same rows or pixels in other bytes.
    """
    files: Mapping[str, str] = evidence["files"]  # type: ignore[assignment]
    here, text = libraries(), json.dumps(evidence["answers"])
    if here["pyarrow"] != recorded["pyarrow"]:
        files = {name: of for name, of in files.items() if name != "samples.parquet"}
    if here["array_record"] != recorded["array_record"]:
        files = {name: of for name, of in files.items() if "array_record" not in name}
    if here["pillow"] != recorded["pillow"] and case.reencodes:
        files = dict.fromkeys(files, "")
        text = re.sub(r'("\w*(bytes|offset)": )(\{[^}]*\}|\d+)', r"\1 0", text)
    return {"answers": json.loads(text), "files": files}


def main(names: Sequence[str]) -> None:
    """Record the evidence of the named cases, or of all."""
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {"cases": {}}
    for name in names or CASES:
        with tempfile.TemporaryDirectory() as folder:
            expected["cases"][name] = gather(CASES[name], Path(folder))
        print(name, expected["cases"][name]["answers"]["pack"][0])
    expected["libraries"] = libraries()
    EXPECTED.write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
