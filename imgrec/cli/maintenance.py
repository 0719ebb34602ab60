"""`imgrec list`, `clean` and `completion`: list datasets, remove old ones, set up a shell."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from imgrec.cli.arguments import data_dir, whole
from imgrec.cli.parser import VERBS, Parser, argument, switch, verb, verb_parser
from imgrec.cli.render import Terminal, emit, pick, table, this_terminal
from imgrec.errors import UsageError, import_extra
from imgrec.storage.paths import to_path
from imgrec.text import number, size, visible

if TYPE_CHECKING:
    from imgrec.inspect.listing import ListedVersion, Listing
    from imgrec.outcome import Leftover

_SHELLS = ("bash", "zsh", "tcsh")
_PREAMBLE = {
    # Names are not given to compgen -W, which would execute a folder called `$(reboot)`.
    "bash": """\
_imgrec_datasets_or_files() {
    local path root=${TFDS_DATA_DIR:-$HOME/tensorflow_datasets}
    for path in "$root"/*/[0-9]*.[0-9]*.[0-9]*/dataset_info.json; do
        path=${path%/*/*} path=${path##*/}
        [[ $path == "$1"* && $path != *[!A-Za-z0-9_-]* ]] && printf '%s\\n' "$path"
    done | uniq
    compgen -f -- "$1"
}
""",
    "zsh": """\
_imgrec_datasets_or_files() {
    local -aU names
    names=(${TFDS_DATA_DIR:-$HOME/tensorflow_datasets}/*/<->.<->.<->/dataset_info.json(N:h:h:t))
    _alternative 'datasets:dataset:compadd -a names' 'files:file:_files'
}
""",
    "tcsh": "",
}
_DATASETS = {"bash": "_imgrec_datasets_or_files", "zsh": "_imgrec_datasets_or_files", "tcsh": "f"}
"""What completes the names of datasets, and files, in each shell."""
_FILE_METAVARS = frozenset({"FILE", "CSV", "HTML", "PNG", "SOURCE", "PREDICTIONS", "DIR|TABLE"})
_DATASET_METAVARS = frozenset({"DATASET", "DATASET|SOURCE", "PATH|NAME"})


@verb(
    ("imgrec list", "imgrec list --data-dir s3://bucket/datasets"),
    (data_dir("where to look; default: where TFDS looks"),),
)
def list(parsed: Namespace) -> int:  # noqa: A001  # a verb has the name that users type
    """List the datasets of a data directory: versions, images, classes, bytes, and what is wrong.

    Only metadata is read. Files that versions share count once in the total.
    """
    from imgrec import api

    found = api.list_datasets(data_dir=parsed.data_dir)
    emit(parsed, _listing_value(found), _listing_lines(found, this_terminal()))
    return 0


def _listing_value(found: Listing) -> dict[str, object]:
    names = "version path state problem by_imgrec images classes size own_size made"
    datasets = [
        {"name": one.name, "versions": [pick(version, names) for version in one.versions]}
        for one in found.datasets
    ]
    return {**pick(found, "data_dir size"), "datasets": datasets}


def _listing_lines(found: Listing, terminal: Terminal) -> Iterator[str]:
    versions = sum(len(one.versions) for one in found.datasets)
    counts = f"{number(len(found.datasets), 'dataset')}, {number(versions, 'version')}"
    yield visible(f"{found.data_dir}: {counts}, {size(found.size)}")
    rows = [
        (
            "" if place else one.name,
            version.version,
            number(version.images, "image"),
            number(version.classes, "class", "classes"),
            size(version.size),
            version.made[:16].replace("T", " "),
            _remarks(version),
        )
        for one in found.datasets
        for place, version in enumerate(one.versions)
    ]
    if rows:
        yield from table(rows, terminal, right={2, 3, 4})


def _remarks(version: ListedVersion) -> str:
    """Return what is special about a version."""
    shared = version.size - version.own_size
    remarks = (
        f"{version.state}: {version.problem}" if version.problem else "",
        "" if version.by_imgrec else "not by imgrec",
        f"{size(shared)} shared" if shared else "",
    )
    return "; ".join(filter(None, remarks))


@verb(
    (
        "imgrec clean --dry-run",
        "imgrec clean --versions 2 --yes",
        "imgrec clean flowers --versions 1 --yes",
    ),
    (
        argument("dataset", "DATASET", "the name of a dataset; default: all", nargs="?"),
        argument(
            "--versions",
            "N",
            "also remove all but the newest N versions of each dataset; needs --yes",
            type=whole,
            default=None,
        ),
        data_dir("where to look; default: where TFDS looks"),
        switch("--yes", "remove versions"),
        switch("--dry-run", "show what would be removed, and remove nothing"),
    ),
)
def clean(parsed: Namespace) -> int:
    """Remove the hidden folders of interrupted packs, which then cannot be continued.

    With --versions, also remove old versions of datasets. Running packs are left alone, and so are
    datasets that imgrec did not make or cannot read.
    """
    from imgrec import api

    if parsed.versions is not None and not (parsed.yes or parsed.dry_run):
        raise UsageError(
            "imgrec clean --versions removes datasets",
            hint="look with --dry-run first, then pass --yes",
        )
    found = api.clean(
        parsed.dataset,
        versions=parsed.versions,
        data_dir=parsed.data_dir,
        dry_run=parsed.dry_run,
    )
    values = [{"path": left.path, "bytes": left.size, "restored": left.restored} for left in found]
    removed = [one for one in values if not parsed.dry_run and not one["restored"]]
    lines = [_leftover_line(left, is_done=not parsed.dry_run) for left in found]
    is_there = not parsed.data_dir or to_path(parsed.data_dir).is_dir()
    reason = "" if is_there else visible(f": {parsed.data_dir} does not exist")
    emit(parsed, {"removed": removed, "found": values}, lines or [f"nothing to remove{reason}"])
    return 0


def _leftover_line(left: Leftover, *, is_done: bool) -> str:
    if left.restored:
        word = "restored" if is_done else "would restore"
        return f"{word} {visible(left.restored)} (an overwrite was interrupted)"
    word = "removed" if is_done else "would remove"
    return f"{word} {visible(left.path)}, {size(left.size)}"


@verb(
    (
        'eval "$(imgrec completion bash)"     in ~/.bashrc',
        'eval "$(imgrec completion zsh)"      in ~/.zshrc, after compinit',
    ),
    (argument("shell", "|".join(_SHELLS), "the shell", choices=_SHELLS),),
)
def completion(parsed: Namespace) -> int:
    """Print a script that lets a shell complete verbs, options, choices, files and datasets."""
    text = completion_script(parsed.shell)
    emit(parsed, {"shell": parsed.shell, "script": text}, [text])
    return 0


def completion_script(shell: str) -> str:
    """Return the script that a shell evaluates."""
    shtab = import_extra("shtab", extra="completion", what="imgrec completion")
    parser = Parser(prog="imgrec")
    verbs = parser.add_subparsers()
    for name, (_, what) in VERBS.items():
        declared = verb_parser(name)
        for action in declared._actions:
            if action.metavar in _DATASET_METAVARS:
                action.complete = _DATASETS  # type: ignore[attr-defined]  # shtab looks for it
            elif action.metavar == "DIR":
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif action.metavar in _FILE_METAVARS:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        verbs.add_parser(name, help=what, parents=[declared], add_help=False)
    return str(shtab.complete(parser, shell=shell, preamble=_PREAMBLE))
