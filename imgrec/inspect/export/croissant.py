"""croissant.json: a description of Parquet files that machine learning tools understand.

See https://docs.mlcommons.org/croissant/docs/croissant-spec.html, version 1.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from imgrec.inspect.export.contents import Column, Contents, WrittenFile
from imgrec.model import TEST, VAL
from imgrec.options import ColumnKind

CROISSANT = "croissant.json"
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that the specification gives. A consumer warns about any other."""
_PARQUET = "application/x-parquet"
_FILES = "parquet-files"
_TYPES = {ColumnKind.INT: "cr:Int64", ColumnKind.FLOAT: "cr:Float32", ColumnKind.TEXT: "sc:Text"}
_SPLITS = {VAL: "cr:ValidationSplit", TEST: "cr:TestSplit"}
"""All other splits, folds too, are for training."""


def croissant(
    contents: Contents, files: Sequence[WrittenFile], columns: Mapping[str, Column]
) -> str:
    """Describe Parquet files with an image and these columns; `label` or `labels` are classes."""
    info, about = contents.info, contents.info.about
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": info.name,
        "description": contents.description,
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "version": info.version,
        "citeAs": about.citation,
        "license": about.license,
        "url": about.homepage,
        "distribution": [*map(_file_object, files), _FILE_SET],
        "recordSet": [_splits(contents), _classes(contents), _images(contents, columns)],
    }
    known = {key: value for key, value in document.items() if value}
    return json.dumps(known, indent=2, ensure_ascii=False) + "\n"


_FILE_SET = {
    "@type": "cr:FileSet",
    "@id": _FILES,
    "name": _FILES,
    "encodingFormat": _PARQUET,
    "includes": "data/*.parquet",
}


def _file_object(file: WrittenFile) -> dict[str, str]:
    return {
        "@type": "cr:FileObject",
        "@id": file.name,
        "name": file.name,
        "contentUrl": file.name,
        "contentSize": f"{file.size} B",
        "encodingFormat": _PARQUET,
        "sha256": file.sha256,
    }


def _splits(contents: Contents) -> dict[str, object]:
    return {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [_constant("splits", "name", "sc:Text"), _constant("splits", "url", "sc:URL")],
        "data": [
            {"splits/name": split.name, "splits/url": _SPLITS.get(split.name, "cr:TrainingSplit")}
            for split in contents.info.splits
        ],
    }


def _classes(contents: Contents) -> dict[str, object]:
    return {
        "@type": "cr:RecordSet",
        "@id": "classes",
        "name": "classes",
        "dataType": "sc:Enumeration",
        "key": {"@id": "classes/label"},
        "field": [
            _constant("classes", "label", "cr:Int64"),
            _constant("classes", "name", "sc:Text"),
        ],
        "data": [
            {"classes/label": label, "classes/name": name}
            for label, name in enumerate(contents.form.classes)
        ],
    }


def _constant(record_set: str, name: str, kind: str) -> dict[str, object]:
    return {"@type": "cr:Field", "@id": f"{record_set}/{name}", "name": name, "dataType": kind}


def _images(contents: Contents, columns: Mapping[str, Column]) -> dict[str, object]:
    return {
        "@type": "cr:RecordSet",
        "@id": "images",
        "name": "images",
        "field": list(_image_fields(contents, columns)),
    }


def _image_fields(contents: Contents, columns: Mapping[str, Column]) -> Iterator[dict[str, object]]:
    splits = "|".join(split.name for split in contents.info.splits)
    # A consumer applies it twice when it joins, so it also has to match its own result.
    pattern = f"^(?:data/)?({splits})(?:-.+)?$"
    source = {"extract": {"fileProperty": "fullpath"}, "transform": {"regex": pattern}}
    split = _field("split", "sc:Text", source)
    yield {**split, "references": {"field": {"@id": "splits/name"}}}
    source = {"extract": {"column": "image"}, "transform": {"jsonPath": "bytes"}}
    yield _field("image", "sc:ImageObject", source)
    taken = {"split", "image"}
    for name, column in columns.items():
        key = re.sub(r"\W", "_", name)  # mlcroissant refuses blanks
        while key in taken:
            key += "_"
        taken.add(key)
        field = _field(key, _TYPES[column.kind], {"extract": {"column": name}})
        field["name"] = name
        if column.is_list:
            field["repeated"] = True
        if name in ("label", "labels"):
            # A reference would be the second one, and mlcroissant can join only once.
            field["description"] = "The label of a class in `classes`; -1 for none."
        yield field


def _field(name: str, kind: str, source: Mapping[str, object]) -> dict[str, object]:
    return {
        **_constant("images", name, kind),
        "source": {"fileSet": {"@id": _FILES}, **source},
    }
