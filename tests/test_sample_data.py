from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conftest import ROOT
from PIL import Image, ImageChops, ImageStat

SHIPPED = ROOT / "sample_data"


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_the_sample_data_is_what_the_script_draws(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "make_sample_data.py"
    subprocess.run([sys.executable, script, tmp_path], check=True)
    assert files(tmp_path) == files(SHIPPED)
    for name in files(SHIPPED):
        if Path(name).name in ("half_downloaded.jpg", ".DS_Store") or "flowers/" not in name:
            continue
        with Image.open(tmp_path / name) as drawn, Image.open(SHIPPED / name) as shipped:
            # Encoders of other versions may differ a little; the pictures do not.
            difference = ImageChops.difference(drawn.convert("RGB"), shipped.convert("RGB"))
            assert max(ImageStat.Stat(difference).mean) < 3, name


def test_the_sample_data_is_small() -> None:
    assert sum((SHIPPED / name).stat().st_size for name in files(SHIPPED)) < 2_000_000
