"""The pickles of CIFAR, read without running anything that is in them.

A pickle is a program for a machine with a stack and a memo, one byte an instruction:
    80 02 · 7d (push a dict) · 55 04 "data" (push a string) · 71 01 (memo 1) · … · 2e (stop)
Numbers are little-endian. This machine knows the instructions that make dicts, lists, integers,
text and arrays of bytes, in protocols 2 to 5, and refuses all others. It never imports or calls a
function that a pickle names: it makes the result itself. `pickle` with a restricted `find_class`
would not do: crafted pickles can exhaust its memory, or crash it with a deeply nested key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn, TypeAlias

from imgrec.errors import SourceError

PROTO = 0x80
_STOP = 0x2E
_PROTOCOLS = range(2, 6)
_MAX_STEPS = 2_000_000
"""The largest file of CIFAR has 200,000."""
_MAX_NAME_BYTES = 100
_MAX_DIMENSIONS = 4
_HINT = "use the published file: a pickle from elsewhere could run anything"


@dataclass(slots=True)
class ByteArray:
    """A numpy array of unsigned bytes, in C order."""

    shape: tuple[int, ...] = ()
    data: bytes = b""


class _Name(Enum):
    """A value that stands for a function or class that a pickle may name."""

    RECONSTRUCT = "_reconstruct"
    FROM_BUFFER = "_frombuffer"
    NDARRAY = "ndarray"
    DTYPE = "dtype"
    ENCODE = "encode"
    UBYTE = "a dtype of unsigned bytes"


Value: TypeAlias = (
    "bool | int | bytes | str | list[Value] | tuple[Value, ...] | dict[str, Value] "
    "| ByteArray | _Name | None"
)

_NAMES = {
    ("numpy", "ndarray"): _Name.NDARRAY,
    ("numpy", "dtype"): _Name.DTYPE,
    ("_codecs", "encode"): _Name.ENCODE,
    # numpy 2 renamed its core.
    ("numpy.core.multiarray", "_reconstruct"): _Name.RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _Name.RECONSTRUCT,
    ("numpy.core.numeric", "_frombuffer"): _Name.FROM_BUFFER,
    ("numpy._core.numeric", "_frombuffer"): _Name.FROM_BUFFER,
}


def loads(data: bytes) -> dict[str, Value]:
    """Return the dict in a pickle, its keys as text; strings of Python 2 become bytes.

    Raises SourceError, without the file's name, for anything that the files of CIFAR do not have.
    """
    machine = _Machine(data)
    value = machine.run()
    if not isinstance(value, dict):
        machine.refuse("it is not a dict")
    return value


class _Machine:
    """The state of a pickle that is being read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Value] = []
        self.below: list[list[Value]] = []
        """The stacks under each mark."""
        self.memo: dict[int, Value] = {}
        self.encoded_bytes = 0

    def refuse(self, why: str) -> NoReturn:
        raise SourceError(
            f"not a pickle of CIFAR: {why}, at byte {self.at:,}", hint=_HINT, offset=self.at
        )

    def run(self) -> Value:
        if self.data[:1] != bytes([PROTO]):
            self.refuse(f"not of protocol {_PROTOCOLS[0]} to {_PROTOCOLS[-1]}")
        steps = 0
        while (code := self.integer(1)) != _STOP:
            steps += 1
            if steps > _MAX_STEPS:
                self.refuse(f"more than {_MAX_STEPS:,} instructions")
            if code not in _STEPS:
                self.refuse(f"instruction {code:#04x}")
            _STEPS[code](self)
        if left := len(self.data) - self.at:
            self.refuse(f"{left:,} bytes after its end")
        value = self.pop()
        if self.stack or self.below:
            self.refuse("values left over at its end")
        return value

    def take(self, count: int) -> bytes:
        start, end = self.at, self.at + count
        if end > len(self.data):
            self.refuse(f"expected {count:,} bytes, found {len(self.data) - start:,}")
        self.at = end
        return self.data[start:end]

    def integer(self, width: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(width), "little", signed=signed)

    def counted(self, width: int) -> bytes:
        """Take bytes after their length, which takes `width` bytes."""
        return self.take(self.integer(width))

    def text(self, width: int) -> str:
        try:
            return self.counted(width).decode()
        except UnicodeDecodeError:
            self.refuse("text that is not UTF-8")

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop(self) -> Value:
        if not self.stack:
            self.refuse("the stack is empty")
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Value]:
        return [self.pop() for _ in range(count)][::-1]

    def pop_to_mark(self) -> list[Value]:
        if not self.below:
            self.refuse("there is no mark")
        values, self.stack = self.stack, self.below.pop()
        return values

    def top(self) -> Value:
        value = self.pop()
        self.push(value)
        return value

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def begin(self) -> None:
        if (protocol := self.integer(1)) not in _PROTOCOLS:
            self.refuse(f"protocol {protocol}")

    def append(self, values: list[Value]) -> None:
        target = self.top()
        if not isinstance(target, list):
            self.refuse("items for a value that is not a list")
        target.extend(values)

    def set_items(self, values: list[Value]) -> None:
        target = self.top()
        if not isinstance(target, dict) or len(values) % 2:
            self.refuse("items for a value that is not a dict")
        for key, value in zip(values[::2], values[1::2], strict=True):
            # Nothing else may be hashed: a deeply nested tuple would overflow the C stack.
            if not isinstance(key, str | bytes):
                self.refuse("a key that is not text")
            target[_as_text(key)] = value

    def put(self, number: int) -> None:
        self.memo[number] = self.top()

    def get(self, number: int) -> None:
        if number not in self.memo:
            self.refuse(f"memo {number:,} is empty")
        self.push(self.memo[number])

    def line(self) -> str:
        end = self.data.find(b"\n", self.at, self.at + _MAX_NAME_BYTES)
        if end < 0:
            self.refuse("a name without an end")
        text = self.take(end - self.at).decode("latin-1")
        self.at += 1
        return text

    def name(self, module: Value, name: Value) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            self.refuse("a name that is not text")
        if (module, name) not in _NAMES:
            self.refuse(f"it names {f'{module}.{name}'[:_MAX_NAME_BYTES]!a}")
        self.push(_NAMES[module, name])

    def reduce(self) -> None:
        """Push the result of one of the known functions."""
        arguments, function = self.pop(), self.pop()
        match function, arguments:
            case _Name.RECONSTRUCT, (_Name.NDARRAY, (0,), "b" | b"b"):
                self.push(ByteArray())
            case _Name.DTYPE, ("u1" | b"u1" | "|u1" | b"|u1", 0, 1):
                self.push(_Name.UBYTE)
            case _Name.DTYPE, (str() | bytes() as kind, *_):
                self.refuse(f"an array of {_as_text(kind)[:8]!a}, not of bytes")
            case _Name.ENCODE, (str() as text, "latin1"):
                self.push(self.encode(text))
            case _Name.FROM_BUFFER, (bytes() as data, _Name.UBYTE, tuple() as shape, "C"):
                self.push(self.array(shape, data))
            case _:
                self.refuse("an unknown call")

    def encode(self, text: str) -> bytes:
        # A text in the memo may be used many times; no file of CIFAR encodes a long one twice.
        self.encoded_bytes += len(text)
        if self.encoded_bytes > len(self.data):
            self.refuse("more text than the file has")
        try:
            return text.encode("latin-1")
        except UnicodeEncodeError:
            self.refuse("bytes beyond 255")

    def build(self) -> None:
        """Set the state of an array, which must be in C order, or of its dtype."""
        state, target = self.pop(), self.top()
        match target, state:
            case _Name.UBYTE, (int(), "|" | b"|", *rest) if all(
                item is None or isinstance(item, int) for item in rest
            ):
                return
            case ByteArray(), (int(), tuple() as shape, _Name.UBYTE, 0, bytes() as data):
                array = self.array(shape, data)
                target.shape, target.data = array.shape, array.data
            case _:
                self.refuse("an unknown state")

    def array(self, shape: tuple[Value, ...], data: bytes) -> ByteArray:
        sides = tuple(side for side in shape if isinstance(side, int) and side >= 0)
        if len(sides) != len(shape) or not 0 < len(shape) <= _MAX_DIMENSIONS:
            self.refuse("an array with an impossible shape")
        if math.prod(sides) != len(data):
            self.refuse(f"an array of {math.prod(sides):,} bytes that has {len(data):,}")
        return ByteArray(sides, data)


def _as_text(key: str | bytes) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else key


def _pusher(read: Callable[[_Machine], Value]) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(read(machine))


_STEPS: Mapping[int, Callable[[_Machine], object]] = {
    PROTO: _Machine.begin,
    0x95: lambda machine: machine.take(8),  # a frame, which only helps to read ahead
    ord("("): _Machine.mark,
    ord("N"): _pusher(lambda _: None),
    0x88: _pusher(lambda _: True),
    0x89: _pusher(lambda _: False),
    ord("K"): _pusher(lambda machine: machine.integer(1)),
    ord("M"): _pusher(lambda machine: machine.integer(2)),
    ord("J"): _pusher(lambda machine: machine.integer(4, signed=True)),
    0x8A: _pusher(lambda machine: machine.integer(machine.integer(1), signed=True)),
    # Strings of Python 2, bytes, and a bytearray.
    **dict.fromkeys((ord("U"), ord("C")), _pusher(lambda machine: machine.counted(1))),
    **dict.fromkeys((ord("T"), ord("B")), _pusher(lambda machine: machine.counted(4))),
    **dict.fromkeys((0x8E, 0x96), _pusher(lambda machine: machine.counted(8))),
    0x8C: _pusher(lambda machine: machine.text(1)),
    ord("X"): _pusher(lambda machine: machine.text(4)),
    0x8D: _pusher(lambda machine: machine.text(8)),
    ord("]"): _pusher(lambda _: []),
    ord("a"): lambda machine: machine.append([machine.pop()]),
    ord("e"): lambda machine: machine.append(machine.pop_to_mark()),
    ord("}"): _pusher(lambda _: {}),
    ord("s"): lambda machine: machine.set_items(machine.pop_many(2)),
    ord("u"): lambda machine: machine.set_items(machine.pop_to_mark()),
    ord(")"): _pusher(lambda _: ()),
    ord("t"): _pusher(lambda machine: tuple(machine.pop_to_mark())),
    0x85: _pusher(lambda machine: tuple(machine.pop_many(1))),
    0x86: _pusher(lambda machine: tuple(machine.pop_many(2))),
    0x87: _pusher(lambda machine: tuple(machine.pop_many(3))),
    ord("q"): lambda machine: machine.put(machine.integer(1)),
    ord("r"): lambda machine: machine.put(machine.integer(4)),
    0x94: lambda machine: machine.put(len(machine.memo)),
    ord("h"): lambda machine: machine.get(machine.integer(1)),
    ord("j"): lambda machine: machine.get(machine.integer(4)),
    ord("c"): lambda machine: machine.name(machine.line(), machine.line()),
    0x93: lambda machine: machine.name(*machine.pop_many(2)),
    ord("R"): _Machine.reduce,
    ord("b"): _Machine.build,
}
"""The effect of each instruction, by its byte; all others are refused."""
