"""The usual causes for which `tfds.load` fails, each a small check of the facts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from imgrec import layout
from imgrec.inspect.doctor.contents import is_loadable
from imgrec.inspect.doctor.facts import (
    TFDS_DOCUMENTS,
    Facts,
    Finding,
    ShardFacts,
    Site,
    snake_case,
)
from imgrec.read.locate import RESUME_HINT, unfinished_beside

CallCause: TypeAlias = Callable[[Facts], Iterator[Finding]]
SiteCause: TypeAlias = Callable[[Site], Iterator[Finding]]

_AGAIN = "restore it, or pack the dataset again with --overwrite"
_SHOWN = 3
_EXTRAS = {"PIL": "pillow"}


def not_importable(facts: Facts) -> Iterator[Finding]:
    """Find TFDS, TensorFlow or Pillow missing or broken."""
    for package in facts.environment.packages:
        if package.fault:
            name = _EXTRAS.get(package.name, package.name)
            fix = "pip install 'imgrec[tfds]'" if name != "pillow" else "pip install pillow"
            if package.version:
                fix = f"pip install --force-reinstall {name.replace('_', '-')}"
            yield Finding("not importable", f"{name} cannot be imported: {package.fault}", fix)


def shadowed(facts: Facts) -> Iterator[Finding]:
    """Find files that are imported in the place of a package."""
    for path in facts.environment.shadows:
        what = f"a script in this folder imports {path} instead of the package of that name"
        yield Finding("shadowed", what, "rename it")


def bad_name(facts: Facts) -> Iterator[Finding]:
    """Find letters in the name that TFDS does not take."""
    if facts.call.text and not facts.call.name:
        what = f"TFDS takes no {facts.call.text!r}: a name has letters, digits and _ only"
        yield Finding("name", what, f"call it {layout.legal_name(facts.call.text)}")


def nothing_there(facts: Facts) -> Iterator[Finding]:
    """Find no such dataset, here or elsewhere."""
    if facts.sites or facts.cut_off or facts.is_absent:
        return
    if facts.has_images:
        what = f"{facts.data_dir} holds images, which are yet to be packed"
        yield Finding("images", what, f"imgrec pack {shlex.quote(facts.data_dir)}")
        return
    if not facts.call.text:
        yield Finding("nothing", f"{facts.data_dir} holds no dataset and no TFRecords")
        return
    there = f"there is {', '.join(facts.others)}" if facts.others else "there is none"
    what = f"no dataset {facts.call.text} in {facts.data_dir}"
    yield Finding("nothing", what, f"{there}; if it is elsewhere: imgrec doctor PATH")


def no_data_dir(facts: Facts) -> Iterator[Finding]:
    """Find a folder that is not there."""
    if facts.is_absent:
        fix = "give the folder that holds datasets"
        yield Finding("data_dir", f"{facts.data_dir} does not exist", fix)


def wrong_level(facts: Facts) -> Iterator[Finding]:
    """Find the data directory that is given too deep, too high or elsewhere."""
    for site in facts.sites if facts.call.text else ():
        given, right = Path(facts.data_dir).absolute(), Path(site.data_dir)
        if given == right:
            continue
        fix = f"give the folder that holds {site.name}: {right}"
        if given == Path(site.folder):
            what = f"data_dir {given} is the version's own folder"
        elif given.is_relative_to(right):
            what = f"data_dir {given} is the dataset's own folder"
        elif right.is_relative_to(given):
            what = f"data_dir {given} is above the folder that holds {site.name}"
        else:
            what = f"TFDS looks in {given}, and {site.name} is in {right}"
            fix = f"give data_dir, or set TFDS_DATA_DIR={shlex.quote(str(right))}"
        yield Finding("data_dir", what, fix)


def wrong_version(facts: Facts) -> Iterator[Finding]:
    """Find the version that is asked for missing."""
    wanted = facts.call.version
    there = [site.version for site in facts.sites]
    if wanted and there and "*" not in wanted and wanted not in there:
        what = f"there is no version {wanted} of {facts.call.name}"
        yield Finding("version", what, f"there is {', '.join(there)}")


def no_config(facts: Facts) -> Iterator[Finding]:
    """Find that a config must be given."""
    if facts.call.name and not facts.call.config:
        for site in facts.sites:
            if site.config:
                what = f"{site.name} has configs, such as {site.config}, and none is given"
                yield Finding("config", what, f"give {site.name}/{site.config}")


def in_catalogue(facts: Facts) -> Iterator[Finding]:
    """Find the name in the catalogue of TFDS, which prefers its own."""
    call = facts.call
    if call.name in layout.tfds_catalogue() and not call.version and facts.sites:
        what = f"TFDS has a {call.name} of its own, which it loads instead"
        yield Finding("catalogue", what, "give the version, or pack it under another --name")


def cut_off(facts: Facts) -> Iterator[Finding]:
    """Find a pack that did not end."""
    for path, is_running in facts.cut_off.items():
        if is_running:
            yield Finding("running", f"it is being packed right now, in {path}", "wait for it")
        elif not facts.sites:
            yield Finding("cut off", f"a pack was cut off: {path}", RESUME_HINT)


def wrong_folder_name(site: Site) -> Iterator[Finding]:
    """Find a name of a folder that TFDS never looks for."""
    if site.is_versioned and not is_loadable(site) and not site.missing:
        looked_for = snake_case(site.name)
        what = f"TFDS never looks into a folder called {site.name}"
        if looked_for != site.name and looked_for.isidentifier():
            what += f": it looks for {looked_for}"
        yield Finding("name", what, f"rename it to {layout.legal_name(site.name)}, or load it so:")


def no_version_folder(site: Site) -> Iterator[Finding]:
    """Find a dataset that is not in a folder of its version."""
    if site.is_versioned or len(site.missing) == len(TFDS_DOCUMENTS):
        return
    version = site.info.version or "1.0.0"
    has = f"{site.version} is no version" if site.version else "there is no folder for the version"
    name = site.name if site.version else Path(site.folder).name
    what = f"{has}: TFDS looks for {name}/{version}"
    yield Finding("version folder", what, f"move its files into {name}/{version}, or load it so:")


def missing_metadata(site: Site) -> Iterator[Finding]:
    """Find documents missing that TFDS reads."""
    if Path(site.folder).name.endswith(".incomplete"):
        yield Finding("cut off", "this is what a pack that was cut off left", RESUME_HINT)
    elif site.missing and (hidden := unfinished_beside(Path(site.folder))):
        yield Finding("cut off", f"a pack was cut off: {hidden}", RESUME_HINT)
    elif site.missing:
        what = f"it has no {' and no '.join(site.missing)}, which TFDS needs"
        yield Finding("missing metadata", what, _AGAIN if len(site.missing) == 1 else "")


def wrong_metadata(site: Site) -> Iterator[Finding]:
    """Find documents that TFDS cannot read."""
    for fault in site.faults:
        if fault.path in TFDS_DOCUMENTS:
            yield Finding("wrong metadata", f"{fault.path}: {fault.what}", _AGAIN)


def wrong_labels(site: Site) -> Iterator[Finding]:
    """Find class names that do not fit, which TFDS does not notice."""
    for fault in site.faults:
        if fault.path not in TFDS_DOCUMENTS:
            said = f"{fault.path}: {fault.what}; TFDS does not notice, and class names are wrong"
            yield Finding("labels", said, _AGAIN)


def packed_compressed(site: Site) -> Iterator[Finding]:
    """Find that imgrec packed it in a way that TFDS cannot read."""
    if site.compression:
        what = f"it was packed with --compression {site.compression}, which TFDS cannot read"
        yield Finding("compressed", what, "pack it without, or load it so:")


def compressed_shards(site: Site) -> Iterator[Finding]:
    """Find shards that someone compressed."""
    found = [shard for shard in site.shards if shard.compression]
    if found:
        what = f"{_some(found)} {found[0].compression}-compressed, which TFDS takes for damage"
        fix = "unpack it in place: gzip -dc" if found[0].compression == "gzip" else "unpack it"
        yield Finding("compressed", what, f"{fix}, or read it so:")


def missing_shards(site: Site) -> Iterator[Finding]:
    """Find files of records missing, or called otherwise."""
    missing = [shard for shard in site.shards if not shard.is_there]
    if not missing or site.missing:
        return
    if site.strays and len(missing) == len(site.shards):
        what = f"TFDS looks for {missing[0].filename}, and there is {site.strays[0]}"
        fix = f"the name in {layout.DATASET_INFO} must be that of the files"
        yield Finding("missing shards", what, fix)
        return
    yield Finding("missing shards", f"{_some(missing)} missing", _AGAIN)


def empty_split(site: Site) -> Iterator[Finding]:
    """Find splits without records, which TFDS refuses to read."""
    for split in site.info.splits:
        if not sum(split.shard_lengths):
            what = f"the split {split.name} is empty, and TFDS refuses to read it"
            yield Finding("empty split", what, f"remove it from {layout.DATASET_INFO}")


def damaged_shards(site: Site) -> Iterator[Finding]:
    """Find files of records that are not what they should be."""
    damaged = [shard for shard in site.shards if shard.fault]
    for shard in damaged[:_SHOWN]:
        yield Finding("damaged", f"{shard.filename}: {shard.fault}", _AGAIN)
    if len(damaged) > _SHOWN:
        rest = f"{len(damaged) - _SHOWN:,} more shards are damaged"
        yield Finding("damaged", rest, "imgrec verify lists all")


def unlike_features(site: Site) -> Iterator[Finding]:
    """Find records that are not what the documents say."""
    if site.record_fault:
        yield Finding("wrong metadata", site.record_fault, _AGAIN)


def _some(shards: list[ShardFacts]) -> str:
    if len(shards) == 1:
        return f"{shards[0].filename} is"
    return f"{len(shards):,} shards, such as {shards[0].filename}, are"


OF_CALLS: tuple[CallCause, ...] = (
    not_importable,
    shadowed,
    bad_name,
    no_data_dir,
    nothing_there,
    wrong_level,
    wrong_version,
    no_config,
    in_catalogue,
    cut_off,
)
OF_SITES: tuple[SiteCause, ...] = (
    wrong_folder_name,
    no_version_folder,
    missing_metadata,
    wrong_metadata,
    wrong_labels,
    packed_compressed,
    compressed_shards,
    missing_shards,
    empty_split,
    damaged_shards,
    unlike_features,
)
