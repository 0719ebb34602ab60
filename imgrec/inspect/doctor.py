"""Find out why `tfds.load` does not load a dataset, and which line does."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from typing import NamedTuple

from imgrec import __version__, layout
from imgrec.errors import SourceError
from imgrec.inspect.dataset_folders import (
    TFDS_DOCUMENTS,
    DatasetFolder,
    ShardGlance,
    describe_folder,
    find_folders,
    has_images,
    snake_case,
)
from imgrec.inspect.tfrecord_files import Contents, list_names, read_contents
from imgrec.read import files
from imgrec.storage.hidden import INCOMPLETE
from imgrec.storage.leftovers import find_leftovers
from imgrec.storage.paths import is_remote, to_path
from imgrec.storage.urls import is_url, scheme_of

_MOST_FOLDERS = 200
_MOST_SHOWN = 3
_RESTORE = "restore it, or pack the dataset again with --overwrite"
_CALL = re.compile(
    r"(?:[\w\-]+:)?(?P<name>[a-zA-Z]\w*)"
    r"(?:/(?P<config>[\w+\-.]+))?"
    r"(?::(?P<version>(?:\d+|\*)(?:\.(?:\d+|\*)){2}))?"
    r"(?:/(?:\w+=[^,]+,?)+)?"
)
"""What TFDS accepts as the name of a dataset."""
_PACKAGES = ("tensorflow_datasets", "tensorflow", "PIL")
_TIMEOUT_S = 90
_READ_BY_TF = frozenset({"gs", "hdfs", "viewfs", "file"})
"""Stores that TensorFlow reads without a plugin."""
_CODE = """
import importlib.metadata, importlib.util, json, sys
name, tries = sys.argv[1], sys.argv[2] == "import"
spec = importlib.util.find_spec(name)
found = {"version": "", "fault": "" if spec else "it is not installed"}
if spec:
    names = importlib.metadata.packages_distributions().get(name) or [name]
    try:
        found["version"] = importlib.metadata.version(names[0])
    except importlib.metadata.PackageNotFoundError:
        found["version"] = "of unknown version"
if spec and tries:
    try:
        importlib.import_module(name)
    except BaseException as error:
        found["fault"] = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps(found))
"""


class Package(NamedTuple):
    """A package that `tfds.load` needs."""

    name: str
    version: str
    """Empty if it is not installed."""
    fault: str = ""
    """Why it cannot be imported; empty if it can, or if that was not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The machine, as far as it matters."""

    python: str
    imgrec: str
    packages: tuple[Package, ...]
    shadows: tuple[str, ...]
    """Files in the current folder that a script there would import instead of a package."""
    default_data_dir: str
    """Where TFDS looks by default."""
    has_tensorflow_io: bool = False
    """Whether TensorFlow's plugin for stores is installed."""


def look_around(*, tries: bool) -> Environment:
    """Find out which packages are installed and, if `tries`, whether they can be imported.

    That happens in other processes: importing TensorFlow takes seconds, and may end the process.
    """
    with ThreadPoolExecutor() as pool:
        packages = tuple(pool.map(lambda name: _probe(name, tries=tries), _PACKAGES))
    files = [f"{name}{end}" for end in (".py", f"{os.sep}__init__.py") for name in _PACKAGES]
    return Environment(
        python=platform.python_version(),
        imgrec=__version__,
        packages=packages,
        shadows=tuple(filter(os.path.isfile, files)),
        default_data_dir=layout.default_data_dir(),
        has_tensorflow_io=find_spec("tensorflow_io") is not None,
    )


def _probe(name: str, *, tries: bool) -> Package:
    try:
        # -P: the current folder, which may be a dataset's, must not provide a tensorflow.py.
        done = subprocess.run(
            [sys.executable, "-P", "-c", _CODE, name, "import" if tries else "find"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_TIMEOUT_S,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        found = json.loads(done.stdout.rstrip().rpartition("\n")[2])
        return Package(name, found["version"], found["fault"])
    except subprocess.TimeoutExpired:
        return Package(name, "", f"importing it takes more than {_TIMEOUT_S} seconds")
    except (ValueError, KeyError, TypeError):  # it ended before it printed
        return Package(name, "", f"importing it ends Python with code {done.returncode}")


class Call(NamedTuple):
    """A name, as `tfds.load` reads it."""

    text: str
    """As it was given; empty if a path was given."""
    name: str = ""
    """The name that TFDS looks for; empty if it does not accept the text."""
    config: str = ""
    version: str = ""


def parse_call(text: str) -> Call:
    """Read a name as `tfds.load` does.

    >>> parse_call("MyFlowers:1.0.0").name, parse_call("my-flowers").name
    ('my_flowers', '')
    """
    match = _CALL.fullmatch(text)
    if match is None:
        return Call(text)
    return Call(text, snake_case(match["name"]), match["config"] or "", match["version"] or "")


class Finding(NamedTuple):
    """One reason why `tfds.load` fails."""

    cause: str
    what: str
    fix: str = ""


class Case(NamedTuple):
    """One dataset: what is wrong with it, and what loads it anyway."""

    path: str
    title: str
    splits: Mapping[str, int]
    findings: tuple[Finding, ...]
    load: str
    """The line that works; "" if there is none."""
    contents: Contents | None
    code: str
    """Code that reads its records without TFDS, if TFDS cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is wrong, and with which datasets."""

    environment: Environment
    data_dir: str
    findings: tuple[Finding, ...]
    """What is wrong with the call, or the machine."""
    cases: tuple[Case, ...]

    @property
    def is_healthy(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.findings and not any(case.findings for case in self.cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What the findings about the call are based on."""

    asked: str
    call: Call
    data_dir: str
    """Where TFDS looks."""
    folders: tuple[DatasetFolder, ...]
    unfinished: Mapping[str, bool]
    """Folders of unfinished packs, and whether the pack is still running."""
    others: tuple[str, ...]
    """The datasets in the data directory."""
    is_absent: bool
    """Whether the folder that was given does not exist."""
    has_images: bool
    """Whether the folder that was given holds images and no TFRecords."""


def diagnose(asked: str, data_dir: str, environment: Environment) -> Diagnosis:
    """Find out why TFDS does not load a dataset, given by name or path.

    Without a name, look at all datasets of the data directory, but count no records.
    """
    root = os.path.expanduser(data_dir) if data_dir else environment.default_data_dir
    path = os.path.expanduser(asked)
    is_path = not asked or is_url(asked) or files.is_path(asked)
    if asked and files.is_file(to_path(path)):
        return _diagnose_file(path, environment)
    is_path = is_path or (os.path.isdir(path) and not _is_name(asked, root))
    call = Call("") if is_path else parse_call(asked)
    start = path if is_path and asked else root
    found = find_folders(start) if is_path else _folders_of(call, root, environment)
    folders = [
        describe_folder(folder, is_thorough=bool(asked)) for folder in islice(found, _MOST_FOLDERS)
    ]
    if call.text and not call.version:  # TFDS takes the highest version
        folders.sort(key=lambda folder: layout.parse_version(folder.version) or (-1, 0, 0))
        folders = folders[-1:]
    packed_to = path if is_path else os.path.join(root, call.name or asked)
    given = start if asked and is_path else os.path.expanduser(data_dir)
    facts = _Facts(
        asked=asked,
        call=call,
        data_dir=start,
        folders=tuple(folders),
        unfinished=_unfinished(packed_to) if asked else {},
        is_absent=bool(given) and not files.is_folder(to_path(given)),
        has_images=is_path and bool(asked) and not folders and has_images(path),
        others=tuple(folder.name for folder in files.folders_in(to_path(root))),
    )
    findings = (*_machine_findings(environment), *_call_findings(facts), *_place_findings(facts))
    return Diagnosis(
        environment=environment,
        data_dir=start,
        findings=findings,
        cases=tuple(_case(folder, environment) for folder in folders),
    )


def _diagnose_file(path: str, environment: Environment) -> Diagnosis:
    path, shown = str(to_path(path).absolute()), path
    contents = read_contents([path])
    return Diagnosis(
        environment=environment,
        data_dir=environment.default_data_dir,
        findings=(Finding("file", f"{shown} is a file, and TFDS loads folders"),),
        cases=(Case(path, os.path.basename(path), {}, (), "", contents, contents.code),),
    )


def _is_name(asked: str, root: str) -> bool:
    """Return whether a text names a dataset, although a folder here has that name too."""
    if any(asked in to_path(folder).absolute().parts[-3:] for folder in find_folders(root)):
        return True
    return files.is_folder(to_path(root) / asked) and not any(find_folders(asked))


def _folders_of(call: Call, root: str, environment: Environment) -> list[str]:
    """Return the folders that a name may mean: where TFDS looks, or wherever one is found."""
    right = os.path.join(root, call.name, call.config, call.version) if call.name else ""
    found = list(find_folders(right)) if right else []
    if found := [folder for folder in found if layout.FEATURES in list_names(folder)]:
        return found
    wanted = _without_spelling(call.name or call.text.partition(":")[0])
    for place in dict.fromkeys([root, environment.default_data_dir, os.getcwd()]):
        found = [
            folder
            for folder in find_folders(place)
            if wanted in map(_without_spelling, to_path(folder).absolute().parts[-3:])
        ]
        if found:
            return found
    return []


def _without_spelling(name: str) -> str:
    """Return a name without case and separators, to compare spellings."""
    return layout.legal_name(name).replace("_", "")


def _unfinished(folder: str) -> dict[str, bool]:
    """Return the folders of unfinished packs, and whether the pack is still running."""
    names = [name for name in list_names(folder) if INCOMPLETE in name]
    over = {path.name for path in find_leftovers(to_path(folder))} if names else set()
    # Folders of imgrec are hidden. Others are TFDS's, which takes no lock.
    return {os.path.join(folder, name): name[0] == "." and name not in over for name in names}


def _case(folder: DatasetFolder, environment: Environment) -> Case:
    info, load, contents = folder.info, folder.load_line, folder.contents
    return Case(
        path=str(folder.path),
        title=f"{info.name or folder.name} {info.version or folder.version}".strip(),
        splits={split.name: split.examples for split in info.splits},
        findings=(
            *_store_findings(folder, environment),
            *_address_findings(folder),
            *_document_findings(folder),
            *_shard_findings(folder),
        ),
        load=load,
        contents=contents,
        code="" if load or contents is None else contents.code,
    )


def _machine_findings(environment: Environment) -> Iterator[Finding]:
    for package in environment.packages:
        if package.fault:
            name = "pillow" if package.name == "PIL" else package.name
            fix = "pip install 'imgrec[tfds]'" if name != "pillow" else "pip install pillow"
            if package.version:
                fix = f"pip install --force-reinstall {name.replace('_', '-')}"
            yield Finding("not importable", f"{name} cannot be imported: {package.fault}", fix)
    for path in environment.shadows:
        what = f"a script in this folder imports {path} instead of the package of that name"
        yield Finding("shadowed", what, "rename it")


def _call_findings(facts: _Facts) -> Iterator[Finding]:
    """Find a name that TFDS does not accept, and a dataset that does not exist."""
    text, data_dir = facts.call.text, facts.data_dir
    if text and not facts.call.name:
        what = f"{text!r} is not a name for TFDS: names have letters, digits and _ only"
        yield Finding("name", what, f"call it {layout.legal_name(text)}")
    if facts.is_absent:
        fix = "give the folder that holds datasets"
        yield Finding("data_dir", f"{data_dir} does not exist", fix)
    elif facts.folders or facts.unfinished or not facts.asked:
        return
    elif facts.has_images:
        yield _images_finding(data_dir)
    elif not text:
        yield Finding("nothing", f"{data_dir} holds no dataset and no TFRecords")
    else:
        there = f"there is {', '.join(facts.others)}" if facts.others else "there is none"
        fix = f"{there}; if it is elsewhere: imgrec doctor PATH"
        yield Finding("nothing", f"no dataset {text} in {data_dir}", fix)


def _images_finding(folder: str) -> Finding:
    if is_remote(folder):
        from imgrec.storage.remote.trees import refuse_part

        try:
            refuse_part(folder)
        except SourceError as error:
            return Finding("images", error.message, error.hint)
    what = f"{folder} holds images that are not packed yet"
    return Finding("images", what, f"imgrec pack {shlex.quote(folder)}")


def _place_findings(facts: _Facts) -> Iterator[Finding]:
    """Find a dataset in another place, version or config than TFDS looks for."""
    call, folders = facts.call, facts.folders
    given = to_path(facts.data_dir).absolute()
    for folder in folders if call.text else ():
        right, fix = folder.data_dir, f"give the folder that holds {folder.name}: {folder.data_dir}"
        if given == right:
            continue
        if given == folder.path:
            what = f"data_dir {given} is the version's own folder"
        elif given.is_relative_to(right):
            what = f"data_dir {given} is the dataset's own folder"
        elif right.is_relative_to(given):
            what = f"data_dir {given} is above the folder that holds {folder.name}"
        else:
            what = f"TFDS looks in {given}, but {folder.name} is in {right}"
            fix = f"give data_dir, or set TFDS_DATA_DIR={shlex.quote(str(right))}"
        yield Finding("data_dir", what, fix)
    versions = [folder.version for folder in folders]
    if call.version and versions and "*" not in call.version and call.version not in versions:
        what = f"there is no version {call.version} of {call.name}"
        yield Finding("version", what, f"there is {', '.join(versions)}")
    for folder in folders if call.name and not call.config else ():
        if folder.config:
            what = f"{folder.name} has configs, such as {folder.config}, and none is given"
            yield Finding("config", what, f"give {folder.name}/{folder.config}")
    if call.name in layout.tfds_catalogue() and not call.version and folders:
        what = f"TFDS has its own {call.name}, and loads that one"
        yield Finding("catalogue", what, "give the version, or pack it under another --name")
    for path, is_running in facts.unfinished.items():
        if is_running:
            yield Finding("running", f"it is being packed right now, in {path}", "wait for it")
        elif not folders:
            yield Finding("cut off", f"a pack was cut off: {path}", files.RESUME_HINT)


def _store_findings(folder: DatasetFolder, environment: Environment) -> Iterator[Finding]:
    """Find a store that TensorFlow, with which TFDS reads, does not know."""
    path = str(folder.path)
    if is_url(path) and scheme_of(path) not in _READ_BY_TF and not environment.has_tensorflow_io:
        what = f"TensorFlow, with which TFDS reads, does not know {scheme_of(path)}://"
        yield Finding("store", what, "copy it to a disk, or load it like this:")


def _address_findings(folder: DatasetFolder) -> Iterator[Finding]:
    """Find folders with names that TFDS never looks for."""
    if folder.is_versioned:
        if not folder.is_loadable and not folder.missing:
            looked_for = snake_case(folder.name)
            what = f"TFDS never looks into a folder called {folder.name}"
            if looked_for != folder.name and looked_for.isidentifier():
                what += f": it looks for {looked_for}"
            fix = f"rename it to {layout.legal_name(folder.name)}, or load it like this:"
            yield Finding("name", what, fix)
    elif len(folder.missing) < len(TFDS_DOCUMENTS):
        wanted = f"{folder.name}/{folder.info.version or '1.0.0'}"
        has = f"{folder.version} is not a version" if folder.version else "it has no version folder"
        fix = f"move its files into {wanted}, or load it like this:"
        yield Finding("version folder", f"{has}: TFDS looks for {wanted}", fix)


def _document_findings(folder: DatasetFolder) -> Iterator[Finding]:
    """Find documents that are missing or wrong."""
    missing = folder.missing
    if folder.path.name.endswith(INCOMPLETE):
        yield Finding("cut off", "this folder is from a pack that was cut off", files.RESUME_HINT)
    elif missing and (hidden := files.unfinished_beside(folder.path)):
        yield Finding("cut off", f"a pack was cut off: {hidden}", files.RESUME_HINT)
    elif missing:
        what = f"it has no {' and no '.join(missing)}, which TFDS needs"
        yield Finding("missing metadata", what, _RESTORE if len(missing) == 1 else "")
    for fault in folder.faults:
        if fault.path in TFDS_DOCUMENTS:
            yield Finding("wrong metadata", f"{fault.path}: {fault.what}", _RESTORE)
    for fault in folder.faults:
        if fault.path not in TFDS_DOCUMENTS:
            effect = "TFDS does not notice this, and class names are wrong"
            yield Finding("labels", f"{fault.path}: {fault.what}; {effect}", _RESTORE)


def _shard_findings(folder: DatasetFolder) -> Iterator[Finding]:
    """Find shards that are compressed, missing, empty or damaged."""
    shards = folder.shards
    if packed_with := folder.documents.metadata.compression:
        what = f"it was packed with --compression {packed_with}, which TFDS cannot read"
        yield Finding("compressed", what, "pack it without, or load it like this:")
    if compressed := [shard for shard in shards if shard.compression]:
        how = compressed[0].compression
        what = f"{_some(compressed)} {how}-compressed, which TFDS takes for damage"
        fix = "decompress it in place: gzip -dc" if how == "gzip" else "decompress it"
        yield Finding("compressed", what, f"{fix}, or read it like this:")
    missing = [shard for shard in shards if not shard.is_there]
    if missing and not folder.missing:
        what, fix = f"{_some(missing)} missing", _RESTORE
        if folder.strays and len(missing) == len(shards):
            what = f"TFDS looks for {missing[0].filename}, but there is {folder.strays[0]}"
            fix = f"the name in {layout.DATASET_INFO} must be that of the files"
        yield Finding("missing shards", what, fix)
    for split in folder.info.splits:
        if not split.examples:
            what = f"the split {split.name} is empty, and TFDS refuses to read it"
            yield Finding("empty split", what, f"remove it from {layout.DATASET_INFO}")
    damaged = [shard for shard in shards if shard.fault]
    for shard in damaged[:_MOST_SHOWN]:
        yield Finding("damaged", f"{shard.filename}: {shard.fault}", _RESTORE)
    if len(damaged) > _MOST_SHOWN:
        what = f"{len(damaged) - _MOST_SHOWN:,} more shards are damaged"
        yield Finding("damaged", what, "imgrec verify lists all")
    if folder.record_fault:
        yield Finding("wrong metadata", folder.record_fault, _RESTORE)


def _some(shards: Iterable[ShardGlance]) -> str:
    names = [shard.filename for shard in shards]
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{len(names):,} shards, such as {names[0]}, are"
