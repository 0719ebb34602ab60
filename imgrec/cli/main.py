"""The `imgrec` command: choose a verb, run it, and turn errors into exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from imgrec.cli.parser import VERBS, Parser, verb_parsers
from imgrec.cli.render import safe
from imgrec.errors import ImgrecError
from imgrec.options import OptionError

_EPILOG = """\
exit codes:
  0 done, 1 faults found, 2 usage, 3 source, 4 plan, 5 dataset, 6 execution, 7 missing extra,
  130 interrupted

examples:
  imgrec pack ./flowers --val-split 0.1     then: tfds.load("flowers", split="train")
  imgrec pack --help                        options of a verb
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if given[:1] == ["help"]:
            given = [*given[1:2], "--help"]
        code = _run_verb(given)
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


def _run_verb(given: Sequence[str]) -> int:
    is_verb = given[:1] and given[0] in VERBS
    parser = make_parser(
        given[:1] if is_verb else () if {*given} <= {"-h", "--help", "--version"} else VERBS
    )
    options = parser.parse_args(given)
    try:
        code: int = options.run(options)
    except OptionError as error:
        verb = next(one for name, one in verb_parsers(parser) if name == given[0])
        raise error.spelled(verb.spell if isinstance(verb, Parser) else str) from error
    return code


def _parsed_verbs(given: Sequence[str]) -> Collection[str]:
    """Return the verbs whose options are needed: the one given, none for help, or all."""
    if given and given[0] in VERBS:
        return given[:1]
    return () if {*given} <= {"-h", "--help", "--version"} else VERBS.keys()


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
    _open_closed_streams()
    sys.exit(main())


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


def make_parser(verbs: Collection[str] = VERBS.keys()) -> Parser:
    """Return a parser that lists all verbs and parses the options of `verbs`.

    The module of a verb is imported only for its options: all of them would take 0.2 s.
    """
    parser = Parser(
        prog="imgrec",
        description="Pack image-classification datasets into TFRecords that TFDS loads.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=_version())
    parsers = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, what in VERBS.items():
        if verb in verbs:
            import_module(f"imgrec.cli.{verb}").add_to(parsers)
        else:
            parsers.add_parser(verb, help=what)
    return parser


def _version() -> str:
    from imgrec import __version__

    return f"imgrec {__version__}"
