from __future__ import annotations

import pickle

import pytest

import imgrec

PUBLIC = [
    "AlsoFormat", "BadImage", "Check", "CifarLabels", "ClassOrder", "ColumnKind",
    "ColumnOption", "Compression", "CorruptRecord", "Crop", "DatasetError", "DatasetExists",
    "DatasetInfo", "DatasetNotFound", "ExecutionError", "FolderLayout", "ImgrecError",
    "MissingExtra", "NearDups", "OnBad", "OnLeak", "OutOfRange", "PackOptions", "Packed", "Plan",
    "PlanError", "Report", "SourceError", "SourceKind", "SourceOptions", "UnknownName",
    "UsageError", "class_weights", "clean", "dry_run", "grain_source", "info", "leaks", "load",
    "open_dataset", "pack", "preview", "report", "torch_dataset", "unpack", "verify",
    "write_submission",
]  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert imgrec.__all__ == PUBLIC


def test_each_public_name_exists_and_no_other() -> None:
    assert [getattr(imgrec, name).__name__ for name in PUBLIC] == PUBLIC
    with pytest.raises(AttributeError, match="no attribute 'unpakc'"):
        _ = imgrec.unpakc  # type: ignore[attr-defined]


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
