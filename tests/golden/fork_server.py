"""Run commands of imgrec, one for each line of input, each in a copy of this process."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from importlib import import_module
from pkgutil import walk_packages

import pyarrow.parquet  # noqa: F401  # imported once, for all copies

import imgrec
from imgrec.cli.main import main

_LATER = re.compile(r"imgrec\.(spark|loaders|builder|view|engine\.spark|__main__)")
"""They import packages that few commands need."""

for module in walk_packages(imgrec.__path__, "imgrec.", onerror=lambda _: None):
    if not _LATER.match(module.name):
        import_module(module.name)


def run(order: dict[str, object]) -> int:
    """Run one command as a program of its own; return its exit code."""
    os.environ.update(order["variables"])  # type: ignore[call-overload]
    os.chdir(str(order["folder"]))
    for number, name in ((1, "out.txt"), (2, "err.txt")):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    try:
        return main(order["arguments"])  # type: ignore[arg-type]
    except SystemExit as ending:
        return int(ending.code or 0)


for line in sys.stdin:
    child = os.fork()
    if not child:
        code = 99
        try:
            code = run(json.loads(line))
        finally:  # whatever happened, this copy must not go on with the loop
            if code == 99:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
