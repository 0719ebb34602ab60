from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pictures import class_tree

import imgrec
from imgrec.options.declaration import declared_options
from imgrec.options.packing import PackKeywords

PUBLIC = [
    "AlsoFormat", "BadImage", "Check", "CifarLabels", "ClassOrder", "ColumnKind", "ColumnOption",
    "Compression", "CorruptRecord", "Crop", "DatasetError", "DatasetExists", "DatasetInfo",
    "DatasetNotFound", "ExecutionError", "FolderLayout", "ImgrecError", "MissingExtra", "NearDups",
    "OnBad", "OnLeak", "OutOfRange", "PackOptions", "Packed", "Plan", "PlanError", "Report",
    "SourceError", "SourceKind", "SourceOptions", "UnknownName", "Updated", "UsageError",
    "class_weights", "clean", "diff", "export", "grain_source", "info", "leaks", "list_datasets",
    "load", "open_dataset", "pack", "plan", "preview", "report", "torch_dataset", "unpack",
    "update", "verify", "write_submission",
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
    assert [*PackKeywords.__annotations__] == [name for name in declared if name != "source"]
    for function in (imgrec.pack, imgrec.plan):
        for name, option in declared.items():
            assert f"{name}: {option.help[:40]}" in (function.__doc__ or "") or name == "source"


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
    assert f"path={packed.info.path!r}" in repr(packed)
    assert "SplitInfo(name='train', examples=80, shards=40, " in repr(packed)
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
