"""Every field of `--json` is documented once, and every documented field exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import downloads
import pytest
from conftest import ROOT, Cli
from damage import change
from json_page import answered_fields, documented_fields, refuse_undocumented
from pictures import jpeg, write_tree

from imgrec.cli.parser import VERBS

FLOWERS = ROOT / "sample_data/flowers"
BEFORE = {
    "1.jpg": (1, "rose,train"), "2.jpg": (2, "rose,train"), "3.jpg": (3, "tulip,train"),
    "4.jpg": (4, "tulip,val"), "5.jpg": (5, "rose,train"), "6.jpg": (6, "poppy,train"),
}  # fmt: skip
AFTER = {
    "1.jpg": (7, "rose,train"), "2.jpg": (2, "tulip,train"), "3.jpg": (3, "tulip,val"),
    "new.jpg": (4, "tulip,val"), "8.jpg": (8, "zinnia,train"),
}  # fmt: skip


def table(root: Path, rows: Mapping[str, tuple[int, str]]) -> Path:
    lines = [f"{name},{cells}" for name, (_, cells) in rows.items()]
    text = "\n".join(["filename,label,split", *lines, ""])
    images = {name: jpeg(seed) for name, (seed, _) in rows.items()}
    return write_tree(root, {**images, "table.csv": text.encode()}) / "table.csv"


def commands(root: Path, data_dir: Path) -> Iterator[tuple[object, ...]]:
    """Yield commands that together answer with every field, except those of `view`."""
    near = ("--near-dups", "report", "--val-split", "0.2")
    yield "plan", FLOWERS, *near, "--max-side", "80"
    yield "pack", FLOWERS, *near
    yield "plan", FLOWERS, "--short-side", "80", "--compression", "gzip"
    yield "plan", FLOWERS, "--also", "array_record"
    for name, option in (("gzip", "--compression"), ("array_record", "--also")):
        yield "pack", FLOWERS, option, name, "--name", name, "--limit-per-class", "2"
        yield "info", name
    yield "preview", "flowers", "-o", root / "preview.png"
    yield "leaks", FLOWERS, "-o", root / "pairs.png"
    burst = {f"burst/oak/{q}.jpg": jpeg(1, (48, 40), quality=q) for q in range(60, 85)}
    yield "leaks", write_tree(root, burst) / "burst"
    yield "completion", "bash"

    same = {f"{split}/{label}/1.jpg": jpeg(1) for split in ("train", "val") for label in ("a", "b")}
    odd = {"train/a/text.jpg": b"text", "train/a/wide.jpg": jpeg(2, (400, 10))}
    leaking = write_tree(root / "leaking", {**same, **odd})
    for verb in ("plan", "pack"):
        yield verb, leaking, "--max-bad", "0.5"
    yield "report", "leaking", "-o", root / "leaking.html"
    yield "verify", "leaking"  # the source had an image in two splits
    change(next(data_dir.glob("leaking/*/*train*-00001")), 40)
    yield "verify", "leaking"
    (data_dir / "plain").mkdir()
    shard = next(data_dir.glob("flowers/*/*train*-00001"))
    (data_dir / "plain" / shard.name).write_bytes(shard.read_bytes())
    yield "doctor", data_dir / "plain", "--quick"
    yield "doctor", "nothing", "--quick"
    yield "doctor", "flowers", "--quick"
    (data_dir / "leaking/.1.0.0.incomplete").mkdir()
    yield ("clean",)
    yield ("list",)

    before, after = table(root / "before", BEFORE), table(root / "after", AFTER)
    of_table = ("--name", "table", "--column", "split:text")
    yield "pack", before, *of_table
    yield "pack", after, *of_table, "--version", "2.0.0", "--seed", "3"
    yield "diff", "table"
    yield "pack", before, "--name", "columns", "--column", "split:text", "--max-bad", "0.5"
    late = {"late.jpg": (12, "rose,train"), "bad.jpg": (13, "rose,train")}
    table(root / "before", {**BEFORE, **late})
    (root / "before/bad.jpg").write_bytes(b"text")
    yield "update", "columns"
    (root / "fixes.csv").write_text("filename,action,label,split\nlate.jpg,drop,,\n")
    yield "edit", "columns", root / "fixes.csv"
    yield "unpack", "columns", root / "unpacked"
    yield "export", "columns", "--to", "webdataset", "-o", root / "exported"
    yield "head", "columns"
    yield "show", "columns", "0"
    yield "show", "columns", "0", "--raw"

    download = downloads.aptos()
    yield "pack", downloads.write_zip(download, root), "--name", "aptos", "--val-split", "0.2"
    rows = ["id_code,diagnosis", *(f"{name},1" for name in download.test.values()), ""]
    (root / "predictions.csv").write_text("\n".join(rows))
    yield "submit", "aptos", root / "predictions.csv", "-o", root / "submission.csv"


def test_every_documented_field_exists_and_every_field_is_documented(
    cli: Cli, tmp_path: Path, data_dir: Path
) -> None:
    found: dict[str, set[str]] = {verb: set() for verb in VERBS}
    for command in commands(tmp_path, data_dir):
        done = cli(*command, "--json")  # refuses undocumented fields
        assert done.stdout.startswith("{"), done.stderr
        verb, fields = answered_fields(done.stdout)
        assert verb == command[0]
        found[verb] |= fields
    documented = documented_fields()
    assert sorted(documented) == sorted(VERBS)
    missing = {verb: sorted(documented[verb] - found[verb]) for verb in VERBS if verb != "view"}
    assert {verb: fields for verb, fields in missing.items() if fields} == {}


def test_an_answer_names_its_form_first(cli: Cli) -> None:
    answer = json.loads(cli("clean", "--json").stdout)
    assert next(iter(answer.items())) == ("schema", "imgrec/clean/1")


def test_an_undocumented_field_is_refused() -> None:
    with pytest.raises(AssertionError, match=re.escape("fields of clean: ['found[].when']")):
        refuse_undocumented('{"schema": "imgrec/clean/1", "found": [{"path": "", "when": 1}]}')
