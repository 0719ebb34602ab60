"""Import optional packages."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from imgrec.errors import MissingExtra


def import_extra(module: str, *, extra: str, what: str) -> ModuleType:
    """Import a package; if it is not installed, raise MissingExtra with the pip command.

    Example: `import_extra("torch", extra="torch", what="torch_dataset")`.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtra(
            f"{what} needs {module}, which is not installed",
            hint=f"pip install 'imgrec[{extra}]'",
        ) from error
