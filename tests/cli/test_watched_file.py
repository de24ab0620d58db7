"""What `restrike run --watch` takes for a saved file."""

from __future__ import annotations

import os
from pathlib import Path

from restrike.cli.run import _version_of


def test_a_file_of_the_same_time_that_takes_the_name_is_another(tmp_path: Path) -> None:
    file, other = tmp_path / "w.yaml", tmp_path / "other.yaml"
    assert _version_of(file) is None
    for path in (file, other):
        path.write_text("steps")
        os.utime(path, (1, 1))
    before = _version_of(file)
    assert before == _version_of(file)
    os.replace(other, file)
    assert _version_of(file) not in (None, before)
