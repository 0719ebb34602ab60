"""The `imgrec` command: choose a verb, run it, and turn errors into exit codes."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from imgrec.cli.parser import Parser
from imgrec.cli.render import safe
from imgrec.errors import ImgrecError

_VERBS = (
    "pack", "plan", "info", "report", "preview", "head", "show", "view", "verify", "unpack",
    "leaks", "submit", "doctor", "clean", "completion",
)  # fmt: skip
"""Each has the module of its name."""
_EPILOG = """\
exit codes:
  0 done, 1 faults found, 2 usage, 3 source, 4 plan, 5 dataset, 6 execution, 7 missing extra,
  130 interrupted

examples:
  imgrec pack ./flowers --val-split 0.1     then: tfds.load("flowers", split="train")
  imgrec pack --help                        what there is to a verb
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    # One run makes millions of small values and hardly a cycle: looking for some costs a fifth.
    gc.disable()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if given[:1] == ["help"]:
            given = [*given[1:2], "--help"]
        # One verb is enough to know, and to import what it needs, if it is named.
        options = make_parser(given[:1] if {*given[:1]} & {*_VERBS} else _VERBS).parse_args(given)
        code: int = options.run(options)
        _flush()
        return code
    except ImgrecError as error:
        _complain(f"{error}", error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        is_packing = given[:1] == ["pack"]
        hint = "run it again: it goes on where shards are finished" if is_packing else ""
        _complain("interrupted; nothing was published" if is_packing else "interrupted", hint)
        return 130
    except BrokenPipeError:
        # Whoever read our output has enough; Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}", "")
        return 6
    except MemoryError:
        _complain("there is not enough memory", "try fewer --workers, or a part of it")
        return 6
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        _complain_of_ourselves(error)
        return 6


def _use_utf8() -> None:
    """Start again in Python's UTF-8 mode if the locale has another encoding.

    Names of files, options and tables are UTF-8 in every locale, so that every machine makes the
    same dataset. Python decides about names when it starts, so this takes another start: 40 ms.
    """
    if sys.getfilesystemencoding() == "utf-8" or "utf8" in sys._xoptions or not sys.executable:
        return
    if sys.stdout is not None:  # which is still what the terminal shows
        os.environ.setdefault("PYTHONIOENCODING", f"{sys.stdout.encoding}:backslashreplace")
    python, *arguments = sys.orig_argv
    os.execv(sys.executable, [python, "-X", "utf8", *arguments])


def run() -> NoReturn:
    """Run the command as a program of its own."""
    _use_utf8()
    # pyarrow imports numpy where there is one, which takes as long as packing a thousand photos.
    # It works without, and nothing else needs numpy in this process, which is all ours.
    sys.modules.setdefault("numpy", None)  # type: ignore[arg-type]  # None bars the import
    _open_closed_streams()
    code = main()
    # Taking a million small values apart one by one, just to end, takes seconds.
    with suppress(OSError):
        _flush()
    os._exit(code)


def _open_closed_streams() -> None:
    """Have input, output and errors lead to nothing where the shell closed them (`2>&-`).

    Otherwise the next file that is opened gets the number of such a stream, and what any library
    prints goes into it: into a shard, say.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        with suppress(OSError):
            os.fstat(number)
            continue
        nothing = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
        setattr(sys, name, os.fdopen(nothing, "r" if name == "stdin" else "w", encoding="utf-8"))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as it is for a main() of other programs
            stream.flush()


def _complain(message: str, hint: str) -> None:
    with suppress(OSError):  # nobody can be told that errors cannot be written
        print(f"imgrec: {safe(message)}", file=sys.stderr)
        if hint:
            print(f"  hint: {safe(hint)}", file=sys.stderr)


def _complain_of_ourselves(error: Exception) -> None:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace else ""
    _complain(
        f"it failed with {type(error).__name__}: {error}{where}",
        "this should not happen: please report it with this message; python -X dev -m imgrec tells "
        "more",
    )


def make_parser(verbs: Sequence[str] = _VERBS) -> Parser:
    """Return the parser of verbs and their options."""
    parser = Parser(
        prog="imgrec",
        description="Pack image-classification datasets into TFRecords that TFDS loads.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=_version())
    parsers = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in verbs:
        import_module(f"imgrec.cli.{verb}").add_to(parsers)
    return parser


def _version() -> str:
    from imgrec import __version__

    return f"imgrec {__version__}"
