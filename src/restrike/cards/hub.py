"""The one seam to the Hugging Face hub: bring a repository's files here, or say why not.

It never decides where the cache is or whether the network may be used; the hub's own client does.
"""

from __future__ import annotations

from pathlib import Path

from restrike.errors import NotFound, Refused, Shortfall


def snapshot(repository: str, revision: str | None, files: tuple[str, ...]) -> Path:
    """The local folder of a repository's files that match the glob patterns.

    Raises:
        NotFound: no such repository, or it is not cached and the hub cannot be reached.
        Refused: the repository is gated, or the extra that talks to the hub is not installed.
        Shortfall: the hub answered with a passing failure.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import (
            GatedRepoError,
            HfHubHTTPError,
            HFValidationError,
            LocalEntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ImportError as error:
        raise Refused("the hub needs an extra: pip install 'restrike[diffusers]'") from error
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(files)))
    except GatedRepoError as error:
        raise Refused(f"'{repository}' is gated; accept its terms on the hub and set HF_TOKEN") from error
    except RevisionNotFoundError as error:
        raise NotFound(f"'{repository}' has no revision '{revision}'") from error
    except HFValidationError as error:
        raise NotFound(
            f"'{repository}' is neither a folder here nor a hub id of the form owner/name"
        ) from error
    except RepositoryNotFoundError as error:
        raise NotFound(f"the hub has no repository '{repository}', or HF_TOKEN may not see it") from error
    except LocalEntryNotFoundError as error:
        raise NotFound(
            f"'{repository}' is not in the hub's cache and the hub cannot be reached; "
            "download it first, or give a local folder"
        ) from error
    except HfHubHTTPError as error:
        raise Shortfall(f"the hub failed on '{repository}': {' '.join(str(error).split())}") from error
