"""The one seam to the Hugging Face hub: bring a repository's files here, or say why not.

It never decides where the cache is or whether the network may be used; the hub's own client does.
"""

from __future__ import annotations

import json
from pathlib import Path

from restrike.errors import NotFound, Refused, Shortfall


def snapshot(repository: str, revision: str | None, files: tuple[str, ...]) -> Path:
    """The local folder of a repository's files that match the glob patterns.

    Raises:
        NotFound: no such repository, or it is not cached and the hub cannot be reached.
        Refused: the repository is gated, or the extra that talks to the hub is not installed.
        Shortfall: the hub answered with a passing failure, or broke off again and again.
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
    except (HfHubHTTPError, *_transport_failures()) as error:
        raise Shortfall(f"the hub failed on '{repository}': {' '.join(str(error).split())}") from error


def cached(repository: str, revision: str | None) -> Path | None:
    """The local folder of a repository as far as it was downloaded, without asking the hub; else None."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise Refused("the hub needs an extra: pip install 'restrike[diffusers]'") from error
    try:
        return Path(snapshot_download(repository, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def missing_bytes(repository: str, revision: str | None, files: tuple[str, ...]) -> int | None:
    """How much a snapshot would have to download; None when the hub cannot be asked, such as offline."""
    try:
        from huggingface_hub import HfApi, try_to_load_from_cache
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
        from huggingface_hub.utils import filter_repo_objects
    except ImportError as error:
        raise Refused("the hub needs an extra: pip install 'restrike[diffusers]'") from error
    unanswered = (*_transport_failures(), HfHubHTTPError, OfflineModeIsEnabled, OSError)
    try:
        found = HfApi().model_info(repository, revision=revision, files_metadata=True, timeout=10)
    except unanswered:
        return None
    listed = {file.rfilename: file.size or 0 for file in found.siblings or ()}
    wanted = filter_repo_objects(listed, allow_patterns=list(files))
    return sum(
        listed[name]
        for name in wanted
        if not isinstance(try_to_load_from_cache(repository, name, revision=found.sha), str)
    )


def _transport_failures() -> tuple[type[Exception], ...]:
    """The failures of the HTTP client that the hub's library speaks with, whichever that is."""
    from huggingface_hub.errors import HfHubHTTPError

    bases = (base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception))
    return tuple(base for base in bases if base is not OSError)


def lacking(root: Path) -> tuple[str, ...]:
    """What a download that was broken off lacks of the models that its own indices name."""
    try:
        index = json.loads((root / "model_index.json").read_text(encoding="utf-8"))
        named = [name for name, value in index.items() if isinstance(value, list) and any(value)]
        # A component with a config.json is a model; others (tokenizers, schedulers) have no weights.
        bare = [
            name
            for name in named
            if not name.startswith("_")
            and (
                not (root / name).is_dir()
                or ((root / name / "config.json").is_file() and not _weights(root, name))
            )
        ]
        shards = [
            shard.relative_to(root).as_posix()
            for listing in root.glob("*/*.safetensors.index.json")
            for shard in _shards(listing)
            if not shard.is_file()
        ]
    except (OSError, ValueError, AttributeError, KeyError):
        return ("model_index.json",)
    return tuple(sorted({*bare, *shards}))


def _weights(root: Path, name: str) -> bool:
    return any((root / name).glob("*.safetensors")) or any((root / name).glob("*.safetensors.index.json"))


def _shards(listing: Path) -> set[Path]:
    mapping = json.loads(listing.read_text(encoding="utf-8"))["weight_map"]
    return {listing.parent / str(name) for name in mapping.values()}
