"""A server's data folder: where its database, workspaces, logs and previews lie. It opens none of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from restrike.errors import Refused, typed
from restrike.server.database.connect import sqlite_url

DATABASE = "restrike.sqlite"
DEFAULT_WORKSPACE = "default"
_WORKSPACE = r"[A-Za-z_][A-Za-z0-9_-]{0,79}"
_PREVIEW = r"[A-Za-z0-9_-]{1,80}/[0-9]{6}\.webp"


@dataclass(frozen=True, kw_only=True)
class Place:
    """One data folder, and the database that goes with it: by default a file in it."""

    folder: Path
    database: str = ""

    @property
    def database_url(self) -> str:
        """The address of the database."""
        return self.database or sqlite_url(self.folder / DATABASE)

    @property
    def workspaces(self) -> Path:
        """The folder of all workspaces."""
        return self.folder / "workspaces"

    @property
    def logs(self) -> Path:
        """The folder of what workers print."""
        return self.folder / "logs"

    @property
    def previews(self) -> Path:
        """The folder of pictures of jobs that run; each may be removed at any time."""
        return self.folder / "previews"

    def workspace(self, name: str) -> Path:
        """The folder of a workspace; raises Refused for what is no name of one."""
        if not re.fullmatch(_WORKSPACE, name):
            raise Refused(f"'{name[:80]}' is no workspace: a letter or _, then letters, digits, _ and -")
        return self.workspaces / name

    def log(self, device: str) -> Path:
        """The file that the workers of a device print to."""
        return self.logs / f"worker-{device.replace(':', '-')}.log"

    def preview(self, name: str) -> Path:
        """The file of a preview as its event names it, `JOB/000003.webp`; raises Refused for another name."""
        if not re.fullmatch(_PREVIEW, name):
            raise Refused(f"'{name[:80]}' names no preview")
        return self.previews / name

    def make(self) -> None:
        """Make the folders; raises Refused or Shortfall when that cannot be done."""
        try:
            for folder in (self.workspace(DEFAULT_WORKSPACE), self.logs, self.previews):
                folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise Refused(
                f"the data folder {self.folder} is a file, or lies in one; give a folder"
            ) from error
        except OSError as error:
            raise typed(error) from error
