"""Read PNG, JPEG, WebP and GIF back as RGB frames.

As diffusers reads pictures: turned upright by their EXIF orientation, an alpha channel dropped.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from restrike.errors import Refused
from restrike.media.clip import Decoded, check_unpacked
from restrike.media.containers import Gif, Jpeg, Png, WebP
from restrike.media.wholeness import check_gif_whole, check_png_whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile


def decode_picture(file: IO[bytes], kind: type[Png | Jpeg | WebP | Gif], limit_bytes: int) -> Decoded:
    """All frames of the picture in `file`; raises whatever Pillow raises on a torn one."""
    import numpy as np

    picture, text = _open(file, kind)
    if kind is Gif:
        check_gif_whole(file)
    elif kind is Png:
        check_png_whole(file)
    frame_count = getattr(picture, "n_frames", 1)
    size = picture.size
    check_unpacked(frame_count, size[1], size[0], limit_bytes)
    frames: list[NDArray[np.uint8]] = []
    total_ms = 0.0
    for i in range(frame_count):
        picture.seek(i)
        if picture.size != size:  # a later GIF frame may reach past the canvas, and Pillow then enlarges it
            raise Refused("its frames are not of one size")
        picture.load()
        frames.append(_rgb(picture))
        total_ms += picture.info.get("duration", 0)
    fps = frame_count * 1000 / total_ms if frame_count > 1 and total_ms > 0 else None
    return Decoded(frames_THWC=np.stack(frames), fps=fps, text=text)


def picture_text(file: IO[bytes], kind: type[Png | Jpeg | WebP | Gif]) -> str | None:
    """The note in the picture, without decoding its pixels."""
    return _open(file, kind)[1]


def _open(file: IO[bytes], kind: type[Png | Jpeg | WebP | Gif]) -> tuple[ImageFile, str | None]:
    # The classes themselves, not `Image.open`: no other format is tried, and our own size limit decides.
    if kind is Png:
        from PIL.PngImagePlugin import PngImageFile

        from restrike.media.stills import png_text

        return (png := PngImageFile(file)), png_text(png)
    if kind is Jpeg:
        from PIL.JpegImagePlugin import JpegImageFile

        from restrike.media.stills import jpeg_text

        return (jpeg := JpegImageFile(file)), jpeg_text(jpeg)
    if kind is WebP:
        from PIL.WebPImagePlugin import WebPImageFile

        from restrike.media.webp import webp_text

        return (webp := WebPImageFile(file)), webp_text(webp)
    from PIL.GifImagePlugin import GifImageFile

    from restrike.media.gif import gif_text

    return (gif := GifImageFile(file)), gif_text(gif)


def _rgb(picture: Image) -> NDArray[np.uint8]:
    import numpy as np
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(picture)
    if upright.mode.startswith("I"):
        # 16-bit grey: Pillow's own conversion clips at 255 instead of scaling.
        grey_HW = (np.asarray(upright) >> 8).astype(np.uint8)
        return np.repeat(grey_HW[..., None], 3, axis=2)
    return np.array(upright.convert("RGB"))
