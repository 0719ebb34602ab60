"""What a verb is to look at, be it a dataset or a source, on the command line."""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple

from imgrec.cli import render
from imgrec.cli.arguments import add_source_options
from imgrec.cli.options import source_of, source_options
from imgrec.errors import UsageError
from imgrec.inspection.subject import shadowing
from imgrec.options import SourceOptions


class Subject(NamedTuple):
    """A dataset or a source, and how it is read if it is a source."""

    what: str
    options: SourceOptions


def add_subject(parser: argparse.ArgumentParser) -> None:
    """Add what is to be looked at, where datasets are, and how sources are read."""
    parser.add_argument(
        "source",
        metavar="DATASET|SOURCE",
        nargs="?",
        help="a dataset's name, name:version or path; or a source to be packed",
    )
    parser.add_argument("--data-dir", default="", metavar="DIR", help="where names are looked up")
    add_source_options(parser)
    # What is asked of a source to be packed, and means nothing here.
    parser.set_defaults(group_by="", include=[], exclude=[], min_side=0, limit_per_class=None)
    parser.set_defaults(yes=SourceOptions().yes)
    parser.set_defaults(map="", only_classes=[], drop_classes=[], min_per_class=0)


def subject_of(parsed: argparse.Namespace) -> Subject:
    """Return what is to be looked at; raise UsageError if nothing is."""
    if not (parsed.source or parsed.manifest):
        raise UsageError("there is nothing to look at", hint="name a dataset or a source")
    subject = Subject(source_of(parsed), source_options(parsed))
    if root := shadowing(subject.what, subject.options, parsed.data_dir):
        what = subject.what
        note = f"{what}: the dataset in {root}; for the folder here, write ./{what}"
        print(render.safe(note), file=sys.stderr)
    return subject
