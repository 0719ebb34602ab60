from __future__ import annotations

import builtins
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from pictures import class_tree

import imgrec
from imgrec.options.declaration import declared_options
from imgrec.options.packing import PackKeywords, SourceKeywords

PUBLIC = [
    "AlsoFormat", "BadImage", "Check", "CifarLabels", "ClassOrder", "ColumnKind", "ColumnOption",
    "Compression", "CorruptRecord", "Crop", "Dataset", "DatasetCard", "DatasetError",
    "DatasetExists", "DatasetInfo", "DatasetNotFound", "Difference", "Engine", "ExecutionError",
    "Exported", "FolderLayout", "ImgrecError", "Labels", "Leaks", "Leftover", "Listing",
    "MissingExtra", "NearDups", "OnBad", "OnLeak", "OutOfRange", "PackOptions", "Packed", "Plan",
    "PlanError", "Preview", "Record", "Report", "ReportPage", "SourceError", "SourceKind",
    "SourceOptions", "Split", "SplitInfo", "Submitted", "UnknownName", "Unpacked", "Updated",
    "UsageError", "Verified", "class_weights", "clean", "diff", "edit", "export", "grain_source",
    "info", "leaks", "list_datasets", "load", "open_dataset", "pack", "plan", "preview", "report",
    "torch_dataset", "torch_stream", "unpack", "update", "verify", "write_submission",
]  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert imgrec.__all__ == PUBLIC
    assert dir(imgrec) == sorted([*PUBLIC, "__version__"])


def test_each_public_name_exists_and_no_other() -> None:
    assert [getattr(imgrec, name).__name__ for name in PUBLIC] == PUBLIC
    with pytest.raises(AttributeError, match="no attribute 'unpakc'"):
        _ = imgrec.unpakc  # type: ignore[attr-defined]


def test_pack_and_plan_take_every_option_as_a_keyword() -> None:
    declared = {**declared_options(imgrec.PackOptions), **declared_options(imgrec.SourceOptions)}
    assert {*PackKeywords.__annotations__} == declared.keys() - {"source"}
    assert [*SourceKeywords.__annotations__] == [*declared_options(imgrec.SourceOptions)]
    for function in (imgrec.pack, imgrec.plan):
        for name, option in declared.items():
            assert f"{name}: {option.help[:40]}" in (function.__doc__ or "") or name == "source"


@pytest.mark.parametrize("function", [imgrec.leaks, imgrec.report, imgrec.preview])
def test_readers_of_a_source_take_the_options_for_reading_it(
    function: Callable[..., object], tmp_path: Path
) -> None:
    with pytest.raises(imgrec.UsageError, match="there is no option 'layuot'") as caught:
        function(tmp_path, layuot="classes")
    assert caught.value.hint.startswith("did you mean layout?")
    with pytest.raises(imgrec.UsageError, match="there is no option 'val_split'"):
        function(tmp_path, val_split=0.1)
    assert "    kind: the kind of SOURCE" in (function.__doc__ or "")


def test_keywords_for_a_source_are_used(tmp_path: Path) -> None:
    class_tree(tmp_path / "flowers", {"rose": 4, "tulip": 4})
    found = imgrec.leaks(tmp_path / "flowers", exclude="rose/*", workers=1)
    assert found.images == 4
    page = imgrec.report(
        tmp_path / "flowers", only_classes="rose", path=tmp_path / "r.html", workers=1
    )
    assert page.facts.images == 4


def test_results_are_shown_in_one_short_line(tmp_path: Path) -> None:
    root = class_tree(tmp_path / "flowers", {"rose": 4, "tulip": 4})
    data = {"data_dir": tmp_path / "data", "workers": 1}
    packed = imgrec.pack(root, **data)  # type: ignore[arg-type]
    class_tree(root, {"rose": 2}, start=50)
    updated = imgrec.update("flowers", **data)  # type: ignore[arg-type]
    place = tmp_path / "data/flowers"
    assert repr(packed) == (
        f"<Packed flowers 1.0.0: 8 images, 2 classes, 0 skipped, {place}/1.0.0>"
    )
    assert repr(updated).startswith("<Updated flowers 1.0.0 -> 1.1.0: 2 ")
    others = (
        *(packed.info, packed.report, updated.difference),
        imgrec.plan(root, workers=1),
        imgrec.verify(updated.info.path, workers=1),
        imgrec.leaks(updated.info.path, workers=1),
        imgrec.export(updated.info.path, tmp_path / "out", to="parquet", workers=1),
        imgrec.unpack(updated.info.path, tmp_path / "tree", workers=1),
        imgrec.list_datasets(data_dir=tmp_path / "data"),
    )
    for value in others:
        assert re.fullmatch(rf"<{type(value).__name__} [^\n]{{10,200}}>", repr(value))


@pytest.mark.parametrize(
    "name",
    [
        "info",
        "open_dataset",
        "verify",
        "unpack",
        "clean",
        "diff",
        "list_datasets",
        "write_submission",
    ],
)
def test_a_mistyped_argument_is_named_with_the_closest(name: str) -> None:
    with pytest.raises(imgrec.UsageError, match=f"imgrec.{name} has no argument 'data_dri'") as no:
        getattr(imgrec, name)(data_dri="x")
    assert no.value.hint.startswith("did you mean data_dir?")


@pytest.mark.parametrize("name", ["plan", "verify", "leaks", "report", "preview", "unpack"])
def test_what_takes_long_takes_workers_and_reports_progress(name: str, tmp_path: Path) -> None:
    source = class_tree(tmp_path / "flowers", {"rose": 2, "tulip": 2})
    is_source = name in ("plan", "preview")
    given = source if is_source else imgrec.pack(source, data_dir=tmp_path / "data").info.path
    paths = {"unpack": {"target": tmp_path / "out"}, "report": {"path": tmp_path / "r.html"}}
    paths["preview"] = {"path": tmp_path / "p.png"}
    stages: list[tuple[str, int, int | None]] = []

    def on_progress(stage: str, done: int, total: int | None) -> None:
        stages.append((stage, done, total))

    function = getattr(imgrec, name)
    function(given, workers=1, on_progress=on_progress, **paths.get(name, {}))
    assert sum(done for _, done, _ in stages) >= 4
    with pytest.raises(imgrec.UsageError, match="workers must be at least 1"):
        function(given, workers=0, **paths.get(name, {}))


PAGE = (ROOT / "imgrec/manual/python.md").read_text()


def test_every_public_name_is_on_its_page() -> None:
    named = set(re.findall(r"`(\w+)", PAGE))
    assert sorted(set(PUBLIC) - named) == []


@pytest.mark.parametrize("name", re.findall(r"^\| `([A-Z]\w+)` \| .*`", PAGE, re.MULTILINE))
def test_every_attribute_of_a_result_is_in_its_row(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", PAGE, re.MULTILINE)
    kind = getattr(imgrec, name)
    if issubclass(kind, imgrec.ImgrecError):
        code, builtin = re.findall(r"^(\d) \| `(\w+)` \|", row)[0]
        assert kind.exit_code == int(code)
        assert issubclass(kind, getattr(builtins, builtin))
        return
    fields = getattr(kind, "_fields", None) or getattr(kind, "__dataclass_fields__", ())
    assert sorted(set(fields) - set(re.findall(r"`(\w+)", row))) == []


def test_keywords_go_over_options(tmp_path: Path) -> None:
    class_tree(tmp_path / "flowers", {"rose": 4, "tulip": 4})
    options = imgrec.PackOptions(name="petals", val_split=0.5, data_dir=tmp_path)
    plan = imgrec.plan(tmp_path / "flowers", options, val_split=0.25, exclude="*/003.jpg")
    packed = imgrec.pack(tmp_path / "flowers", options, val_split=0.25, exclude="*/003.jpg")
    assert (plan.name, packed.info.name) == ("petals", "petals")
    sizes = {split.name: sum(split.shard_lengths) for split in packed.info.splits}
    assert sizes == {"train": 4, "val": 2}
    with pytest.raises(imgrec.UsageError, match="there is no option 'val_splt'") as caught:
        imgrec.pack(tmp_path / "flowers", val_splt=0.1)  # type: ignore[call-arg]
    assert caught.value.hint.startswith("did you mean val_split?")


def test_results_fit_on_a_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = class_tree(tmp_path / "flowers", {f"species {n}": 2 for n in range(40)})
    packed = imgrec.pack(source, data_dir=tmp_path / "data", shards=40)
    assert packed.info.path in repr(packed)
    assert "SplitInfo(name='train', examples=80, shards=40, " in repr(packed.info.splits)
    path = packed.info.path
    others = [imgrec.plan(source), imgrec.info(path), imgrec.report(path), imgrec.preview(path)]
    for result in (packed, packed.report, *others):
        assert len(repr(result)) < 1000


@pytest.mark.parametrize(
    ("name", "code", "builtin"),
    [
        ("UsageError", 2, ValueError), ("SourceError", 3, ValueError), ("BadImage", 3, ValueError),
        ("PlanError", 4, ValueError), ("DatasetError", 5, ValueError),
        ("DatasetNotFound", 5, LookupError), ("DatasetExists", 5, ValueError),
        ("CorruptRecord", 5, ValueError), ("UnknownName", 5, KeyError),
        ("OutOfRange", 5, IndexError), ("ExecutionError", 6, RuntimeError),
        ("MissingExtra", 7, ImportError),
    ],
)  # fmt: skip
def test_each_error_has_its_exit_code_is_a_builtin_and_can_be_pickled(
    name: str, code: int, builtin: type[Exception]
) -> None:
    kind = getattr(imgrec, name)
    assert kind.exit_code == code
    assert issubclass(kind, builtin)
    assert issubclass(kind, imgrec.ImgrecError)
    error = pickle.loads(pickle.dumps(kind("what", hint="do", path="p", offset=7)))
    assert type(error) is kind
    assert (str(error), error.hint, error.path, error.offset) == ("what", "do", "p", 7)
