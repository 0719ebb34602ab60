"""What the pickles of CIFAR may hold: all else is refused, and nothing in them runs."""

from __future__ import annotations

import os
import pickle
import random
import struct
import tracemalloc
from pathlib import Path

import pytest
from cifar_files import IMAGE, Call, Python2, array, batch, meta, pixels
from hypothesis import example, given
from hypothesis import strategies as st
from sampling import examples

from imgrec.codec.cifar_pickle import ByteArray, loads
from imgrec.errors import SourceError


def test_a_pickle_of_python_2_is_read() -> None:
    data = pixels(1, 300)
    value = loads(batch(list(range(300)), data))
    assert value == {
        "batch_label": b"training batch 1 of 5",
        "labels": list(range(300)),
        "data": ByteArray((300, IMAGE), data),
        "filenames": [b"thing_s_%06d.png" % number for number in range(300)],
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("as_text", [False, True], ids=["bytes", "text"])
def test_a_batch_pickled_again_by_python_3_is_read(protocol: int, as_text: bool) -> None:
    numpy = pytest.importorskip("numpy")
    data = pixels(1, 300)
    array = numpy.frombuffer(data, numpy.uint8).reshape(300, IMAGE).copy()
    again = {b"labels": [1] * 299 + [70000], b"data": array, b"filenames": [b"a.png"] * 300}
    if as_text:
        again = {key.decode(): value for key, value in again.items()}  # type: ignore[misc]
    assert loads(pickle.dumps(again, protocol)) == {
        "labels": [1] * 299 + [70000],
        "data": ByteArray((300, IMAGE), data),
        "filenames": [b"a.png"] * 300,
    }


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**2000), 2**2000) | st.binary() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@examples(40)
@given(st.dictionaries(st.text(), values), st.sampled_from([3, 4, 5]))
def test_plain_values_are_read_as_python_reads_them(
    value: dict[str, object], protocol: int
) -> None:
    assert loads(pickle.dumps(value, protocol)) == value


def hostile(marker: Path) -> dict[str, object]:
    command = f"touch '{marker}'"
    code = f"open({str(marker)!r}, 'w').close()"
    return {
        "system": Call(os.system, command),
        "eval": Call(eval, code),
        "exec": Call(exec, code),
        "import": Call(__import__, "os"),
        "getattr": Call(getattr, "x", "upper"),
        "a chain": Call(Call(getattr, Call(__import__, "os"), "system"), command),
        "nested": Call(Call, Call(os.system, command)),
        "in a list": [1, [2, Call(os.system, command)]],
        "in a dict": {"labels": Call(eval, code)},
        "as an argument": Call(list, Call(eval, code)),
        "open": Call(open, str(marker), "w"),
        "bytes": Call(bytes, 1 << 40),
        "class": Path,
        "object": random.Random(1),
        "set": {1, 2},
        "float": 1.5,
        "complex": 1j,
    }


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("what", sorted(hostile(Path())))
def test_a_hostile_pickle_is_refused_and_runs_nothing(
    what: str, protocol: int, tmp_path: Path
) -> None:
    marker = tmp_path / "was here"
    data = pickle.dumps({"data": hostile(marker)[what]}, protocol)
    with pytest.raises(SourceError, match="not a pickle of CIFAR"):
        loads(data)
    assert not marker.exists()


def test_the_hostile_pickles_of_these_tests_do_harm_elsewhere(tmp_path: Path) -> None:
    marker = tmp_path / "was here"
    pickle.loads(pickle.dumps(hostile(marker)["system"], 2))
    assert marker.exists()


NAMED = b"cnumpy\ndtype\n"


@pytest.mark.parametrize(
    "body",
    [
        b"ccopyreg\n_reconstructor\n(cbuiltins\nobject\ncbuiltins\nobject\nNtR.",
        b"ccopy_reg\n__newobj__\n)R.",
        b"cnumpy.core.multiarray\nscalar\n)R.",
        b"cnumpy\nload\n(U\x01xtR.",
        b"c__main__\nx\n.",
        b"cnumpy.core\nmultiarray._reconstruct\n.",
        b"cbuiltins\ngetattr\n(cos\nsystem\ntR.",
        b"Pid\n.",
        b"U\x02idQ.",
        b"\x82\x01.",
        b"\x83\x01\x00.",
        b"\x84\x01\x00\x00\x00.",
        b"(ios\nsystem\n.",
        b"(cos\nsystem\nU\x02ido.",
        NAMED + b")\x81.",
        NAMED + b")}\x92.",
        NAMED + b"(U\x02O8K\x00K\x01tR.",
        NAMED + b"(U\x02f8K\x00K\x01tR.",
        NAMED + b"(U\x02u1K\x00K\x01tR(K\x04U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00}tb.",
        NAMED + b")R.",
        NAMED + b"}b.",
        b"K\x01}b.",
        b"K\x01K\x02R.",
        b"K\x01K\x02\x93.",
        b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00utf16tR.",
        b"c_codecs\nencode\n(X\x03\x00\x00\x00\xe2\x82\xacX\x06\x00\x00\x00latin1tR.",
        b"}(]K\x01u.",
        b"}(K\x01K\x01u.",
        b"}(K\x01u.",
        b"}K\x01.",
        b"(}.",
        b".",
        b"}",
        b"}.}",
        b"K\x01.",
        b"h\x07.",
        b"e.",
        b"a.",
        b"K\x01K\x01a.",
        b"X\x01\x00\x00\x00\xff.",
        b"c" + b"x" * 1000 + b"\n.",
        b"\x80\x06}.",
        b"\x97.",
        b"0.",
        b"S'a'\n.",
        b"I1\n.",
        b"\x8b\xff\xff\xff\x7f.",
    ],
    ids=repr,
)
def test_every_other_program_is_refused(body: bytes) -> None:
    with pytest.raises(SourceError, match="not a pickle of CIFAR") as caught:
        loads(b"\x80\x02" + body)
    assert caught.value.offset is not None


@pytest.mark.parametrize("data", [b"", b"\x80", b"}.", b"\x80\x01}.", b"<html>", b"\x1f\x8b\x08"])
def test_only_pickles_of_protocol_2_to_5_are_read(data: bytes) -> None:
    with pytest.raises(SourceError, match="not a pickle of CIFAR"):
        loads(data)


def test_an_array_is_read_whatever_its_shape() -> None:
    value = loads(array(b"(K\x02K\x03t", b"\x89", b"abcdef"))
    assert value == {"data": ByteArray((2, 3), b"abcdef")}


@pytest.mark.parametrize(
    ("shape", "order", "message"),
    [
        (b"(K\x02K\x03t", b"\x88", "an unknown state"),
        (b"(K\x02K\x02t", b"\x89", "an array of 4 bytes that has 6"),
        (b"(K\x02K\x03K\x01K\x01K\x01t", b"\x89", "an impossible shape"),
        (b"(J\xff\xff\xff\xffJ\xfa\xff\xff\xfft", b"\x89", "an impossible shape"),
        (b"(U\x01xt", b"\x89", "an impossible shape"),
        (b")", b"\x89", "an impossible shape"),
        (b"(K\x06t", b"K\x07", "an unknown state"),
    ],
)
def test_an_array_that_does_not_fit_its_bytes_is_refused(
    shape: bytes, order: bytes, message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        loads(array(shape, order, b"abcdef"))


@pytest.mark.parametrize(
    "body",
    [
        b"\x8e" + struct.pack("<Q", 10 << 30),
        b"\x8d" + struct.pack("<Q", 10 << 30),
        b"\x96" + struct.pack("<Q", 2**64 - 1),
        b"B" + struct.pack("<I", 2**32 - 1),
        b"T" + struct.pack("<i", -1),
        b"X" + struct.pack("<I", 2**32 - 1),
        b"}r\xff\xff\xff\xff.",
        b"}j\xff\xff\xff\xff.",
        b"\x95" + struct.pack("<Q", 2**63) + b"}.",
        b"c_codecs\nencode\nq\x00X" + struct.pack("<I", 1000) + b"a" * 1000 + b"q\x01"
        b"X\x06\x00\x00\x00latin1\x86q\x02" + b"h\x00h\x02R" * 10000,
    ],
    ids=["bytes", "text", "bytearray", "4 GB", "-1", "4 GB text", "memo", "get", "frame", "again"],
)
def test_a_claim_of_a_great_size_takes_no_memory(body: bytes) -> None:
    data = b"\x80\x04" + body
    tracemalloc.start()
    try:
        loads(data)
    except SourceError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize(
    ("opening", "closing"),
    [(b"(", b"t"), (b"]", b"a"), (b")", b"\x85"), (b"}U\x01a", b"s")],
    ids=["marks", "lists", "tuples", "dicts"],
)
def test_deep_nesting_gives_a_value_or_our_error(opening: bytes, closing: bytes) -> None:
    depth = 20_000
    deep = opening * depth + b"N" + closing * depth
    for data in (b"\x80\x02" + deep + b".", b"\x80\x02}U\x01x" + deep + b"s."):
        try:
            assert isinstance(loads(data), dict)
        except SourceError as error:
            assert "not a pickle of CIFAR" in str(error)


def test_a_program_without_end_is_given_up() -> None:
    with pytest.raises(SourceError, match="more than 2,000,000 instructions"):
        loads(b"\x80\x02" + b"N" * 2_000_001)


PICKLES = (
    meta(),
    Python2().dump({b"labels": [1, 300, -5], b"data": ByteArray((2, 3), b"abcdef")}),
    array(b"(K\x02K\x03t", b"\x89", b"abcdef"),
    pickle.dumps({b"a": [1, (2, None), "x"], "y": True}, 2),
    pickle.dumps({b"a": [1, (2, None), "x"], "y": bytearray(b"z")}, 5),
)


edit_lists = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 2), st.binary(max_size=4)), max_size=8
)


def edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for place, length, new in edits:
        at = place % (len(data) + 1)
        data = data[:at] + new + data[at + length :]
    return data


OPCODES = st.sampled_from([bytes([code]) for code in range(256)])
programs = st.lists(
    OPCODES | st.sampled_from([NAMED, b"U\x01a", b"K\x00", b"}", b"]"]), max_size=40
).map(lambda codes: b"\x80\x02" + b"".join(codes) + b".")
HOSTILE = ("system", "eval", "exec", "nested", "a chain")


@pytest.mark.fuzz
@given(st.sampled_from((*PICKLES, *HOSTILE)) | programs, edit_lists)
@example(b"\x80\x02}}s.", [])
@examples(1500)
def test_a_changed_pickle_gives_a_dict_or_our_error_and_runs_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    data: bytes | str,
    edits: list[tuple[int, int, bytes]],
) -> None:
    folder = tmp_path_factory.getbasetemp() / "hostile"
    folder.mkdir(exist_ok=True)
    if isinstance(data, str):
        data = pickle.dumps({"data": hostile(folder / "was here")[data]}, 2)
    try:
        assert isinstance(loads(edited(data, edits)), dict)
    except SourceError as error:
        assert "not a pickle of CIFAR" in str(error)
    assert list(folder.iterdir()) == []
