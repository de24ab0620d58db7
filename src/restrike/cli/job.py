"""Everything that can be settled, and refused, before torch is imported and a single step runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from restrike.cards import registry
from restrike.cards.card import LoopSpec, ModelCard
from restrike.cards.request import Arguments, Request, resolve
from restrike.cli.asking import LOSSLESS, SCALE, Source, card_name, request_of, source_of
from restrike.cli.options import Options
from restrike.cli.targets import EYE_PX, Target, Wish, is_still, scale_for, targets_for
from restrike.errors import Refused


@dataclass(frozen=True, kw_only=True)
class Job:
    """A request that its card accepts, and a writable place for each picture.

    `scale` is the factor of enlargement, None for what the eye needs.
    """

    card: ModelCard
    loop: LoopSpec
    request: Request
    arguments: Arguments
    targets: Mapping[int, Target]
    scale: int | None
    source: Source | None


def prepare(options: Options) -> Job:
    """Settle card, request, seed and files; raises Refused, NotFound or Unknown for whatever cannot be."""
    source = source_of(options)
    card = registry.find(card_name(options, source))
    request = request_of(options, source)
    if request.frames is None and is_still(options.output) and card.geometry.frames.accepts(1):
        request = replace(request, frames=1)
    loop, arguments = _resolved(card, request)
    scale = _scale(options, source)
    return Job(
        card=card,
        loop=loop,
        request=replace(request, seed=arguments.seed),
        arguments=arguments,
        targets=targets_for(arguments, _wish(options, source), scale),
        scale=scale,
        source=source,
    )


def _resolved(card: ModelCard, request: Request) -> tuple[LoopSpec, Arguments]:
    """As `resolve`; a refused size is told of the enlargement, which makes a file larger than its picture."""
    try:
        return resolve(card, request)
    except Refused as error:
        axes = ((card.geometry.width, request.width), (card.geometry.height, request.height))
        if all(asked is None or axis.accepts(asked) for axis, asked in axes):
            raise
        width, height = (axis.nearest(asked or 0) for axis, asked in axes)
        scale = scale_for(width, height)
        if scale == 1:
            raise
        whole = f"{width}x{height} is written {scale} times as large, {width * scale}x{height * scale}"
        raise Refused(f"{error.message}; a picture of {whole}, unless --native is given") from error


def _scale(options: Options, source: Source | None) -> int | None:
    if options.native:
        return 1
    if source is None or options.size is not None:
        return None
    # A file that says nothing of it was written from Python, which enlarges nothing.
    recorded = source.provenance.arguments.get(SCALE, 1)
    if isinstance(recorded, bool) or not isinstance(recorded, int) or not 1 <= recorded <= EYE_PX:
        raise Refused(f"'{source.path}' was enlarged {recorded!r} times, which is not from 1 to {EYE_PX}")
    return recorded


def _wish(options: Options, source: Source | None) -> Wish:
    return Wish(
        output=options.output,
        like=options.source,
        lossless=bool(source and source.provenance.arguments.get(LOSSLESS)),
        must_be_lossless=options.lossless,
    )
