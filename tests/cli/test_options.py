"""Options take plain values of the right kind, and refuse any other in one sentence."""

from __future__ import annotations

import pickle
import typing
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import NoneType

import numpy as np
import pytest
from conftest import ROOT

import imgrec
from imgrec.codec.decode import Decoding
from imgrec.engine.spark import read_settings
from imgrec.errors import UsageError
from imgrec.options import (
    AlsoFormat,
    ColumnKind,
    ColumnOption,
    PackOptions,
    ShrinkOptions,
    SourceOptions,
)
from imgrec.options.loading import LoadOptions, StreamOptions

FLOWERS = ROOT / "sample_data" / "flowers"
KINDS = (PackOptions, SourceOptions, ShrinkOptions, LoadOptions, StreamOptions, Decoding)
VALUES: tuple[object, ...] = (
    None, True, False, 0, 1, 3, -1, 2**63, 10**400, 10**5000,
    1.5, 0.5, float("nan"), float("inf"), 1j, Fraction(1, 2), Decimal("0.5"),
    "", "x", "0.1", "1", "leaf", "age:int", "age:bool", "a\0b", "\ud800", "(", Path("x"),
    b"x", bytearray(b"x"), object(), object, len, {}, {"x": 1}, {1: 2}, {"seed": 1}, {"x"},
    [], ["x"], ["x", 1], [1, 2], (0, 1), (1, 2, 3), ("x", "int"), [("x", "int")], [None], [["x"]],
    [b"x"], [("x", "float", 10**400)], range(2), np.int64(1), np.float32(0.5), np.bool_(True),
    np.str_("x"), np.array([1, 2]), np.array(1), np.array([]), np.array(["a", "b"]),
    ColumnOption("x"), ColumnOption(3, "huge"), "x{99999999999999999999}", AlsoFormat.ARRAY_RECORD,
    ColumnKind.INT, PackOptions(), SourceOptions(),
)  # fmt: skip


def fits(hint: object, value: object) -> bool:
    """Return whether a value has exactly this type: True is not a number, and 1 is not a float."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and arguments[1:] == (...,):
        return type(value) is tuple and all(fits(arguments[0], one) for one in value)
    if origin is tuple:
        return type(value) is tuple and all(map(fits, arguments, value))
    if arguments:  # a union
        return any(fits(one, value) for one in arguments)
    return value is None if hint is NoneType else type(value) is hint


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_holds_its_type_or_the_value_is_refused_in_one_sentence(kind: type) -> None:
    hints = typing.get_type_hints(kind)
    needed = {"max_side": 9} if kind is ShrinkOptions else {}
    for name, value in ((field.name, value) for field in fields(kind) for value in VALUES):
        try:
            options = kind(**{**needed, name: value})
        except UsageError as error:
            assert len(error.message) < 300
            assert "\n" not in error.message
        else:
            assert fits(hints[name], getattr(options, name)), (name, value)
            assert replace(options) == options  # parsing twice changes nothing


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (PackOptions, {"val_split": "0.1"}, "val_split cannot be '0.1'"),
        (PackOptions, {"workers": True}, "workers cannot be True"),
        (PackOptions, {"max_bad": float("nan")}, "max_bad must be at least 0 and at most 1"),
        (PackOptions, {"overwrite": "yes"}, "overwrite cannot be 'yes'"),
        (PackOptions, {"data_dir": None}, "data_dir cannot be None"),
        (PackOptions, {"classes": {"a"}}, "classes cannot be {'a'}"),
        (PackOptions, {"source": "x"}, "source cannot be 'x'"),
        (PackOptions, {"quality": 101, "max_side": 9}, "quality must be at most 100"),
        (PackOptions, {"quality": 80}, "quality needs short_side or max_side"),
        (PackOptions, {"classes_append": True}, "classes_append needs classes"),
        (PackOptions, {"include": "a"}, "PackOptions has no option 'include'"),
        (SourceOptions, {"include": ["a", 3]}, "include cannot be 3"),
        (SourceOptions, {"column": "age:bool"}, "column age:bool: bool is not a column type"),
        (LoadOptions, {"image_size": "12"}, "image_size cannot be '12'"),
        (LoadOptions, {"scale": (0, float("nan"))}, "scale cannot be (0, nan)"),
        (Decoding, {"channels": True}, "channels cannot be True"),
    ],
)
def test_a_wrong_value_is_named(kind: type, given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        kind(**given)
    assert caught.value.message == message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"short_side": 8, "max_side": 9}, "{0} and {1} cannot be combined"),
        ({"folds": 2, "val_split": 0.1}, "{0} and {1} cannot be combined"),
        ({"also": "array_record", "compression": "gzip"}, "{0} and {1} cannot be combined"),
        ({"val_split": 0.5, "test_split": 0.5}, "{0} and {1} together leave nothing to train on"),
        ({"only_classes": "a", "drop_classes": "a"}, "a is in both {0} and {1}"),
        ({"group_by": "a", "group_col": "a"}, "{0} and {1} cannot be combined"),
        ({"label_sep": "a", "onehot": "a"}, "{0} and {1} cannot be combined"),
    ],
)
def test_options_that_exclude_each_other_are_named(given: dict[str, object], problem: str) -> None:
    kind = PackOptions if hasattr(PackOptions, next(iter(given))) else SourceOptions
    with pytest.raises(UsageError) as caught:
        kind(**given)  # type: ignore[arg-type]
    assert caught.value.message == problem.format(*given)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"include": "train/bird/*"}, ("train/bird/*",)),
        ({"exclude": Path("a/b")}, ("a/b",)),
        ({"label_names": "rose"}, ("rose",)),
        ({"onehot": (name for name in ("a", "b"))}, ("a", "b")),
        ({"column": "age"}, (ColumnOption("age"),)),
        ({"column": ["age:int", 3]}, (ColumnOption("age", ColumnKind.INT), ColumnOption("3"))),
        ({"column": ColumnOption("a:int")}, (ColumnOption("a:int"),)),
        ({"column": [("age", "int")]}, (ColumnOption("age", ColumnKind.INT),)),
        ({"path_col": 0}, "0"),
        ({"class_depth": "leaf"}, 0),
        ({"min_side": np.int64(3)}, 3),
        ({"images": Path("pool")}, "pool"),
    ],
)
def test_plain_values_of_a_source_are_taken(given: dict[str, object], expected: object) -> None:
    (name,) = given
    assert getattr(SourceOptions(**given), name) == expected  # type: ignore[arg-type]  # the point


def test_plain_values_of_a_pack_are_taken() -> None:
    made = PackOptions(data_dir=Path("x"), classes="rose", also="array_record", val_split=0)  # type: ignore[arg-type]
    assert made == PackOptions(
        data_dir="x", classes=("rose",), also=(AlsoFormat.ARRAY_RECORD,), val_split=0.0
    )
    assert PackOptions(source={"include": "a"}) == PackOptions(source=SourceOptions(include=("a",)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"val_fraction": 0.1}, "there is no option 'val_fraction'", "it is now called val_split"),
        ({"sed": 1}, "there is no option 'sed'", "did you mean seed? There is"),
        ({"source": {"includ": 1}}, "SourceOptions has no option 'includ'", "did you mean include"),
        ([1], "options cannot be [1]", "give PackOptions(...), or a dict of its options"),
        ({1: 2}, "options cannot be {1: 2}", "give PackOptions(...), or a dict of its options"),
    ],
)
def test_unknown_options_are_named_with_the_closest(given: object, message: str, hint: str) -> None:
    for function in (imgrec.pack, imgrec.plan):
        with pytest.raises(UsageError) as caught:
            function(FLOWERS, given)  # type: ignore[arg-type]
        assert caught.value.message == message
        assert caught.value.hint.startswith(hint)


def test_an_error_about_an_option_survives_a_worker() -> None:
    with pytest.raises(UsageError) as caught:
        SourceOptions(fold_case=True, keep_case=True)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.message == caught.value.message == "fold_case and keep_case cannot be combined"
    assert again.hint == caught.value.hint == "choose one of them"


def test_options_have_help_and_are_given_by_name() -> None:
    assert "val_split: fraction of each class for val" in str(PackOptions.__doc__)
    with pytest.raises(UsageError, match="PackOptions takes its options by name"):
        PackOptions("flowers")  # type: ignore[misc]


def test_a_dict_does_the_same_as_options() -> None:
    asked = PackOptions(val_split=0.1, source=SourceOptions(include=("rose/*", "tulip/*")))
    nested = {"val_split": 0.1, "source": {"include": ["rose/*", "tulip/*"]}}
    flat = {"val_split": 0.1, "include": ["rose/*", "tulip/*"]}
    expected = imgrec.plan(FLOWERS, asked)
    assert expected.classes == ("rose", "tulip")
    assert [imgrec.plan(FLOWERS, given) for given in (nested, flat)] == [expected] * 2


@pytest.mark.parametrize("name", ["two\nlines", "", " blank", "return\r"])
def test_a_class_that_the_file_of_labels_cannot_hold_is_refused(name: str) -> None:
    classes = ("daisy", "dandelion", "rose", "sunflower", "tulip", name)
    with pytest.raises(imgrec.PlanError, match=r"--classes cannot be used: '"):
        imgrec.plan(FLOWERS, PackOptions(classes=classes))


@pytest.mark.parametrize("name", ["report", "preview", "leaks"])
def test_source_options_can_be_a_dict(name: str) -> None:
    with pytest.raises(UsageError, match="SourceOptions has no option 'includ'"):
        getattr(imgrec, name)(FLOWERS, source={"includ": "a"})


@pytest.mark.parametrize("value", [None, 3, b"x", ["x"]])
def test_every_function_refuses_a_path_that_is_not_text(value: object) -> None:
    for name in ("pack", "plan", "info", "open_dataset", "verify", "leaks", "report", "preview",
                 "load", "class_weights", "torch_dataset", "grain_source"):  # fmt: skip
        with pytest.raises(UsageError, match="cannot be"):
            getattr(imgrec, name)(value)
    for option in ("split", "class_name"):
        with pytest.raises(UsageError, match=f"{option} cannot be"):
            imgrec.preview(FLOWERS, **{option: value})  # type: ignore[arg-type]
    for name in ("info", "open_dataset", "verify", "load", "class_weights", "grain_source"):
        with pytest.raises(UsageError, match="data_dir cannot be"):
            getattr(imgrec, name)("flowers", data_dir=value)


@pytest.mark.parametrize("conf", [{"spark.a": "1"}, {"spark.a": 1}, "spark.a=1", ["spark.a=1"]])
def test_spark_settings_are_a_dict_or_text(conf: object) -> None:
    assert read_settings(conf) == {"spark.a": "1"}


@pytest.mark.parametrize("conf", [3, "spark.a", ["spark.a"], [3], b"spark.a=1", {3: "1"}])
def test_wrong_spark_settings_are_refused(conf: object) -> None:
    with pytest.raises(UsageError, match="conf cannot be"):
        read_settings(conf)
