"""Paths that mean the same wherever a task runs."""

from __future__ import annotations

import os
from dataclasses import replace

from imgrec.layout import default_data_dir
from imgrec.options import PackOptions


def anywhere(source: str, options: PackOptions) -> tuple[str, PackOptions]:
    """Return source and options for workers whose working directory and home may be others."""
    images = options.source.images and os.path.abspath(options.source.images)
    data_dir = os.path.expanduser(options.data_dir) or default_data_dir()
    where = replace(options.source, images=images)
    options = replace(options, source=where, data_dir=os.path.abspath(data_dir))
    return os.path.abspath(source), options
