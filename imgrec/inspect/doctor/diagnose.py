"""A diagnosis: gather the facts, then find the causes in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from imgrec import layout
from imgrec.inspect.doctor import causes
from imgrec.inspect.doctor.contents import load_line, read_code, read_contents
from imgrec.inspect.doctor.facts import (
    Call,
    Contents,
    Environment,
    Facts,
    Finding,
    Site,
    parse_call,
)
from imgrec.inspect.doctor.site import find_folders, has_images, listed, look_at_site
from imgrec.read import locate
from imgrec.storage.leftovers import INCOMPLETE, find_leftovers
from imgrec.storage.paths import refuse_remote

_MOST_SITES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One dataset, what is wrong with it, and what loads it nevertheless."""

    path: str
    title: str
    splits: Mapping[str, int]
    findings: tuple[Finding, ...]
    load: str
    """The line that works; "" if there is none."""
    contents: Contents | None
    code: str
    """What reads its records without TFDS, where that cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What was found."""

    environment: Environment
    data_dir: str
    findings: tuple[Finding, ...]
    """What is wrong with the call, or the machine."""
    cases: tuple[Case, ...]

    @property
    def is_healthy(self) -> bool:
        """Tell whether nothing is wrong."""
        return not self.findings and not any(case.findings for case in self.cases)


def diagnose(asked: str, data_dir: str, environment: Environment) -> Diagnosis:
    """Find out why TFDS does not load a dataset, given by name or path.

    If nothing is asked for, look at all datasets of the data directory, and less closely.
    """
    root = os.path.expanduser(data_dir) if data_dir else environment.default_data_dir
    path = os.path.expanduser(asked)
    is_here = asked and (locate.is_path(asked) or os.path.exists(path))
    for place in (asked, data_dir or ("" if is_here else root)):
        refuse_remote(place, "imgrec doctor")
    if asked and os.path.isfile(path):
        return _of_file(path, environment)
    is_path = not asked or locate.is_path(asked)
    is_path = is_path or (os.path.isdir(path) and not _is_name(asked, root))
    if is_path:
        folders = _some(find_folders(path if asked else root))
        call = Call("")
    else:
        call = parse_call(asked)
        folders = _folders_of(asked, call, root, environment)
    sites = [look_at_site(folder, is_thorough=bool(asked)) for folder in folders]
    facts = Facts(
        environment=environment,
        call=call,
        data_dir=path if is_path and asked else root,
        sites=tuple(_highest(sites) if call.text and not call.version else sites),
        cut_off=_cut_off(asked, path if is_path else os.path.join(root, call.name or asked)),
        is_absent=not os.path.isdir(path) if is_path and asked else _is_absent(data_dir),
        has_images=is_path and bool(asked) and not sites and has_images(path),
        others=tuple(name for name in listed(root) if os.path.isdir(os.path.join(root, name))),
    )
    is_bare = not asked and not sites  # an empty data directory is no fault
    return Diagnosis(
        environment=environment,
        data_dir=str(facts.data_dir),
        findings=tuple(
            finding
            for cause in causes.OF_CALLS
            if not (is_bare and cause is causes.nothing_there)
            for finding in cause(facts)
        ),
        cases=tuple(map(_case, facts.sites)),
    )


def _is_name(asked: str, root: str) -> bool:
    """Tell whether a text is the name of a dataset, although there is a folder called that."""
    if any(asked in Path(folder).absolute().parts[-3:] for folder in find_folders(root)):
        return True
    return os.path.isdir(os.path.join(root, asked)) and not any(find_folders(asked))


def _is_absent(data_dir: str) -> bool:
    return bool(data_dir) and not os.path.isdir(os.path.expanduser(data_dir))


def _of_file(path: str, environment: Environment) -> Diagnosis:
    contents = read_contents([os.path.abspath(path)])
    return Diagnosis(
        environment=environment,
        data_dir=environment.default_data_dir,
        findings=(Finding("file", f"{path} is a file, and TFDS loads folders"),),
        cases=(
            Case(
                path=os.path.abspath(path),
                title=os.path.basename(path),
                splits={},
                findings=(),
                load="",
                contents=contents,
                code=read_code(contents),
            ),
        ),
    )


def _folders_of(asked: str, call: Call, root: str, environment: Environment) -> list[str]:
    """Return the folders that a name may mean: where TFDS looks, or else wherever one is found."""
    right = os.path.join(root, call.name, call.config, call.version) if call.name else ""
    if right and (found := [folder for folder in find_folders(right) if _is_placed(folder)]):
        return _some(found)
    name = _alike(call.name or asked.partition(":")[0])
    places = dict.fromkeys([root, environment.default_data_dir, os.getcwd()])
    for place in places:
        found = [folder for folder in find_folders(place) if name in _names(folder)]
        if found:
            return _some(found)
    return []


def _is_placed(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, layout.FEATURES))


def _names(folder: str) -> set[str]:
    """Return the names that a dataset in a folder may go by."""
    return {_alike(part) for part in Path(folder).absolute().parts[-3:]}


def _alike(name: str) -> str:
    """Return what all spellings of a name have in common."""
    return layout.legal_name(name).replace("_", "")


def _some(folders: Iterable[str]) -> list[str]:
    return [folder for folder, _ in zip(folders, range(_MOST_SITES), strict=False)]


def _highest(sites: list[Site]) -> list[Site]:
    """Return the highest version, which is what TFDS takes."""
    return sorted(sites, key=lambda site: layout.parse_version(site.version) or (-1, 0, 0))[-1:]


def _cut_off(asked: str, folder: str) -> dict[str, bool]:
    """Return the folders of packs that did not end, and whether one is running there."""
    if not asked:
        return {}
    hidden = [name for name in listed(folder) if INCOMPLETE in name]
    over = {path.name for path in find_leftovers(Path(folder))} if hidden else set()
    is_ours = {name: name.startswith(".") for name in hidden}
    return {os.path.join(folder, name): is_ours[name] and name not in over for name in hidden}


def _case(site: Site) -> Case:
    load = load_line(site)
    title = f"{site.info.name or site.name} {site.info.version or site.version}".strip()
    return Case(
        path=site.folder,
        title=title,
        splits={split.name: sum(split.shard_lengths) for split in site.info.splits},
        findings=tuple(_findings(site)),
        load=load,
        contents=site.contents,
        code="" if load or site.contents is None else read_code(site.contents),
    )


def _findings(site: Site) -> Iterator[Finding]:
    for cause in causes.OF_SITES:
        yield from cause(site)
