"""Names of workspaces and previews lead nowhere outside the data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from restrike.errors import Refused
from restrike.server.place import Place


def test_everything_lies_in_the_folder(tmp_path: Path) -> None:
    place = Place(folder=tmp_path / "data")

    place.make()

    assert place.database_url == f"sqlite:///{tmp_path}/data/restrike.sqlite"
    assert place.workspace("default").is_dir()
    assert place.log("cuda:1") == tmp_path / "data/logs/worker-cuda-1.log"
    assert place.preview("job-1/000003.webp").parent.parent == place.previews
    assert Place(folder=tmp_path, database="postgresql+psycopg://x/y").database_url.startswith("postgresql")


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden", "a" * 81, "a\n", "/etc"])
def test_what_is_no_workspace_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="is no workspace"):
        Place(folder=tmp_path).workspace(name)


@pytest.mark.parametrize(
    "name", ["../x.webp", "job/../000001.webp", "job/1.webp", "/000001.webp", "job/000001.png"]
)
def test_what_is_no_preview_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="names no preview"):
        Place(folder=tmp_path).preview(name)


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "data"):
        with pytest.raises(Refused, match="is a file"):
            Place(folder=folder).make()
