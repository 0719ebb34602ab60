"""Why a download cannot be read, and the option that helps."""

from __future__ import annotations

from imgrec.errors import SourceError, UsageError
from imgrec.options import FolderLayout, SourceOptions
from imgrec.source.download.file_names import suggested_regex
from imgrec.source.download.folders import FolderReading
from imgrec.source.download.index import ImageIndex
from imgrec.source.download.seen import Seen, SeenTable
from imgrec.source.download.unlabelled import folder_of
from imgrec.source.download.words import is_submission
from imgrec.source.manifests.columns import is_path_column, squashed

_LOOKED_AT = 400
_SHOWN = 5


def template_refusal(
    seen: Seen, sample: SeenTable | None, index: ImageIndex, options: SourceOptions
) -> SourceError | None:
    """Return the refusal if ids are only the beginnings of several files' names."""
    if options.image_template or folders_decide(options):
        return None
    for path, table in sorted(seen.tables.items()):
        columns = table.columns
        named = [
            at
            for at, name in enumerate(columns.names)
            if is_path_column(name)
            or (sample and squashed(name) == squashed(sample.columns.names[0]))
        ]
        for at in named if not is_submission(path) else ():
            if sum(map(index.knows, columns.texts(at)[:_LOOKED_AT])):
                continue
            templates = index.templates(columns.texts(at)[:_LOOKED_AT])
            if templates:
                shown = templates[0] if len(templates) == 1 else templates[len(templates) // 2 - 1]
                count = f"{len(templates)} files" if len(templates) > 1 else "a file"
                return SourceError(
                    f"{seen.root}: ids of {path} name {count} each: "
                    f"{', '.join(templates[:_SHOWN])}",
                    hint=f"say which with --image-template '{shown}'",
                    path=seen.root,
                )
    return None


def no_table(seen: Seen, options: SourceOptions) -> SourceError | UsageError:
    """Return the refusal of an option that only a table can answer, where there is none."""
    option = table_option(options)
    if not seen.tables:
        return UsageError(
            f"{option} needs a table of labels, and {seen.root} has none",
            hint=f"leave out {option}, or name the table with --manifest",
        )
    return SourceError(
        f"{option} needs a table of labels, and none of {', '.join(sorted(seen.tables)[:_SHOWN])} "
        f"names images in {seen.root}",
        hint="name the column of images with --path-col, or the table with --manifest",
        path=seen.root,
    )


def no_labels(seen: Seen, reading: FolderReading) -> SourceError:
    """Return the refusal of images that neither folders nor tables give a class."""
    flat = sorted(path or "." for path in reading.flat)
    tables = sorted(path for path in seen.tables if not is_submission(path))
    told = f" and no table names them ({', '.join(tables[:_SHOWN])})" if tables else ""
    names = [path.rpartition("/")[2] for path in seen.images if folder_of(path) in reading.flat]
    regex = suggested_regex(names)
    pattern = f"--label-regex '{regex}'" if regex else "--label-regex with a pattern"
    return SourceError(
        f"{seen.root}: the images in {', '.join(flat)} have no class folders{told}",
        hint=f"pass {pattern} if names such as {names[0]} tell the class, name a table with "
        "--manifest, or put the images of each class into a folder",
        path=seen.root,
    )


def table_option(options: SourceOptions) -> str:
    """Return an option that only a table can answer; "" if none is given."""
    given = {
        "--manifest": options.table,
        "--path-col": options.path_col,
        "--label-col": options.label_col,
        "--onehot": options.onehot,
        "--split-col": options.split_col,
        "--group-col": options.group_col,
        "--column": options.columns,
        "--label-sep": options.label_sep,
        "--label-names": options.label_names,
        "--image-template": options.image_template,
    }
    return next((option for option, value in given.items() if value), "")


def folders_decide(options: SourceOptions) -> bool:
    """Tell whether options say that folders or file names are the classes."""
    if options.table:
        return False
    is_told = options.layout is not FolderLayout.AUTO or options.class_depth is not None
    return is_told or bool(options.label_regex)
