from __future__ import annotations

import pickle

import pytest

import imgrec
from imgrec import errors

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


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_exists(name: str) -> None:
    assert getattr(imgrec, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'unpakc'"):
        _ = imgrec.unpakc  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "code", "builtin"),
    [
        (errors.UsageError, 2, ValueError),
        (errors.SourceError, 3, ValueError),
        (errors.BadImage, 3, ValueError),
        (errors.PlanError, 4, ValueError),
        (errors.DatasetError, 5, ValueError),
        (errors.DatasetNotFound, 5, LookupError),
        (errors.DatasetExists, 5, ValueError),
        (errors.CorruptRecord, 5, ValueError),
        (errors.UnknownName, 5, KeyError),
        (errors.OutOfRange, 5, IndexError),
        (errors.ExecutionError, 6, RuntimeError),
        (errors.MissingExtra, 7, ImportError),
    ],
)
def test_each_error_has_its_exit_code_and_is_the_builtin_that_fits(
    kind: type[errors.ImgrecError], code: int, builtin: type[Exception]
) -> None:
    assert kind.exit_code == code
    assert issubclass(kind, builtin)
    assert issubclass(kind, errors.ImgrecError)


@pytest.mark.parametrize("kind", [errors.BadImage, errors.DatasetNotFound, errors.MissingExtra])
def test_an_error_travels_between_processes_whole(kind: type[errors.ImgrecError]) -> None:
    error = pickle.loads(pickle.dumps(kind("what", hint="do", path="p", offset=7)))
    assert type(error) is kind
    assert (str(error), error.hint, error.path, error.offset) == ("what", "do", "p", 7)
