"""The `imgrec` command: run a verb, and turn errors into exit codes."""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, NoReturn

from imgrec.cli.parser import VERBS, choose, load_verb, verb_parser
from imgrec.errors import ImgrecError, UsageError
from imgrec.options.parsing import OptionError
from imgrec.storage.urls import redacted
from imgrec.text import visible

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_HELP = """\
usage: imgrec [-h] [--version] VERB ...

Pack image-classification datasets into TFRecords that TFDS loads.

verbs:
{verbs}

options:
  -h, --help  show this help message and exit
  --version   show the version and exit

exit codes:
  0 done, 1 faults or differences found, 2 usage, 3 source, 4 plan, 5 dataset,
  6 execution, 7 missing extra, 130 interrupted

examples:
  imgrec pack ./flowers --val-split 0.1     then: tfds.load("flowers", split="train")
  imgrec pack --help                        options of a verb
  imgrec help sources                       a page of the manual

pages of the manual:
{topics}\
"""


def run() -> NoReturn:
    """Run the command as a program."""
    _use_utf8()
    _open_closed_streams()
    sys.exit(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run_verb(given)
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        return code
    except ImgrecError as error:
        _complain(str(error), error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        if given[:1] in (["pack"], ["update"], ["edit"]):
            hint = "run it again: it continues with the shards that are not finished"
            _complain("interrupted; nothing was published", hint)
        else:
            _complain("interrupted")
        return 130
    except BrokenPipeError:
        # The reader of our output has closed it. Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}")
        return 6
    except MemoryError:
        _complain("out of memory", "try fewer --workers, or a part of the data")
        return 6
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        _complain_about_bug(error)
        return 6


def _run_verb(given: list[str]) -> int:
    if given[:1] == ["help"]:
        if given[1:] and not given[1].startswith("-"):
            _show_page(given[1])
            return 0
        given = ["--help"]
    if not given:
        verbs = choose([*VERBS], "")
        raise UsageError("no verb given", hint=f"{verbs}; or --help, or --version")
    name, *rest = given
    if name in ("-h", "--help"):
        verbs = "\n".join(f"  {verb:<12}{what}" for verb, (_, what) in VERBS.items())
        pages = textwrap.fill(", ".join(topics()), 78, initial_indent="  ", subsequent_indent="  ")
        print(_HELP.format(verbs=verbs, topics=pages))
        return 0
    if name == "--version":
        from imgrec import __version__

        print(f"imgrec {__version__}")
        return 0
    if name not in VERBS:
        raise _unknown_verb(name)
    parser = verb_parser(name)
    try:
        parsed = parser.parse_args(rest)
        with _logging() if parsed.verbose else nullcontext():
            return load_verb(name).run(parsed)
    except OptionError as error:
        raise error.spelled(parser.spell) from error


@contextmanager
def _logging() -> Iterator[None]:
    """Print what imgrec logs."""
    import logging

    class Lines(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return f"imgrec: {visible(redacted(record.getMessage()))}"

    logger, handler = logging.getLogger("imgrec"), logging.StreamHandler()
    before = logger.level
    handler.setFormatter(Lines())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def topics() -> list[str]:
    """Return what `imgrec help` has a page about: the verbs, and others."""
    return sorted({*_pages(), *VERBS})


def _pages() -> dict[str, Traversable]:
    """Return the pages of the manual by their names."""
    from importlib.resources import files

    pages = files("imgrec").joinpath("manual").iterdir()
    return {page.name.removesuffix(".md"): page for page in pages if page.name.endswith(".md")}


def _show_page(topic: str) -> None:
    """Show a page of the manual, in a pager on a terminal; raise UsageError if there is none."""
    import re
    from pydoc import pager

    pages = _pages()
    if topic not in topics():
        raise UsageError(f"there is no verb or topic {topic!r}", hint=choose(topics(), topic))
    if topic in pages:
        text = pages[topic].read_text(encoding="utf-8")
    else:  # a verb that shares the page of another, such as "# imgrec update and edit"
        texts = (page.read_text(encoding="utf-8") for page in pages.values())
        text = next(one for one in texts if re.match(rf"# imgrec .*\b{topic}\b", one))
    pager(re.sub(r"!?\[([^\]]+)\]\([^)]+\)", r"\1", text))  # links as plain text


def _unknown_verb(name: str) -> UsageError:
    if not name.startswith("-"):
        return UsageError(f"there is no verb {name!r}", hint=choose([*VERBS], name))
    flag = name.partition("=")[0]
    if any(verb_parser(one).has_option(flag) for one in VERBS):
        return UsageError(f"{flag} must come after the verb", hint=f"write imgrec VERB {flag}")
    return UsageError(f"imgrec has no option {flag}", hint="see imgrec --help")


def _use_utf8() -> None:
    """Restart in Python's UTF-8 mode if the locale has another encoding.

    Names of files, options and tables are UTF-8 in every locale, so that every machine makes the
    same dataset. Python decides about names when it starts, so this takes a restart: 40 ms.
    """
    if sys.getfilesystemencoding() == "utf-8" or "utf8" in sys._xoptions or not sys.executable:
        return
    if sys.stdout is not None:  # the terminal still has its own encoding
        os.environ.setdefault("PYTHONIOENCODING", f"{sys.stdout.encoding}:backslashreplace")
    python, *arguments = sys.orig_argv
    os.execv(sys.executable, [python, "-X", "utf8", *arguments])


def _open_closed_streams() -> None:
    """Open /dev/null for standard streams that the shell closed (`2>&-`).

    Otherwise the next file that is opened gets the number of such a stream, and anything that a
    library prints goes into it: into a shard, for example.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        with suppress(OSError):
            os.fstat(number)
            continue
        null = os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
        setattr(sys, name, os.fdopen(null, "r" if name == "stdin" else "w", encoding="utf-8"))


def _complain(message: str, hint: str = "") -> None:
    with suppress(OSError):  # if errors cannot be written, there is nowhere to say so
        # URLs with keys in them are refused by sentences that may quote what was typed.
        print(f"imgrec: {visible(redacted(message))}", file=sys.stderr)
        if hint:
            print(f"  hint: {visible(redacted(hint))}", file=sys.stderr)


def _complain_about_bug(error: Exception) -> None:
    import traceback

    where = traceback.extract_tb(error.__traceback__)[-1]
    _complain(
        f"it failed with {type(error).__name__}: {error} ({where.filename}:{where.lineno})",
        "this should not happen: please report it with this message; python -X dev -m imgrec shows "
        "more",
    )
