"""Types that argparse keeps to itself."""

from __future__ import annotations

import argparse
from typing import TypeAlias

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
