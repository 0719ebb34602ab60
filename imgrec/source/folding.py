"""Merging classes whose names differ only in spelling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from imgrec.model import Catalog
from imgrec.spelling import commonest


def fold_classes(catalog: Catalog) -> Catalog:
    """Give classes that differ only in spelling the name that most of their images have."""
    samples, images = catalog.samples, catalog.samples.count_classes()
    known = sorted({*catalog.class_folders, *(catalog.class_order or ())})
    spelled = commonest({name: images[name] for name in known})
    if all(name == usual for name, usual in spelled.items()):
        return catalog
    folders: dict[str, list[str]] = defaultdict(list)
    for name, where in catalog.class_folders.items():
        folders[spelled[name]] += where
    return replace(
        catalog,
        samples=replace(
            samples,
            class_names=tuple([spelled.get(name, name) for name in samples.class_names]),
            label_sets=tuple([_merged(names, spelled) for names in samples.label_sets]),
        ),
        class_folders={name: tuple(sorted(folders[name])) for name in sorted(folders)},
        class_order=_merged(catalog.class_order, spelled) if catalog.class_order else None,
    )


def _merged(names: Iterable[str], spelled: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(spelled[name] for name in names))
