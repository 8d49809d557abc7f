"""What is left of an executable in a file? What it takes to load it again: on the same kind of slice only."""

from __future__ import annotations

from importlib.metadata import version

import msgspec

from backend.errors import FailedPrecondition, InvalidArgument
from backend.link.messages import Welcome

_MAGIC = b"tpuctl executable\n"


class SavedExecutable(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A program after partitioning, with where it was compiled for and by which version of tpuctl."""

    made_by: str
    type: str
    device_kind: str
    name: str
    module: bytes
    options: bytes
    fingerprint: str


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SavedExecutable)


def save(name: str, module: bytes, options: bytes, fingerprint: str, slice_: Welcome) -> bytes:
    """The bytes of an executable that was compiled on ``slice_``."""
    saved = SavedExecutable(_maker(), slice_.type, slice_.device_kind, name, module, options, fingerprint)
    return _MAGIC + _encoder.encode(saved)


def restore(data: bytes, slice_: Welcome) -> SavedExecutable:
    """What ``save`` wrote. Raises InvalidArgument for other bytes, FailedPrecondition if made for another slice."""
    if not data.startswith(_MAGIC):
        raise InvalidArgument("these bytes are no executable of this device; compile the program again")
    try:
        saved = _decoder.decode(data[len(_MAGIC) :])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the saved executable is damaged ({error}); compile the program again") from None
    if (saved.type, saved.device_kind) != (slice_.type, slice_.device_kind):
        raise FailedPrecondition(
            f"the executable {saved.name} was compiled for a {saved.type} slice, but this slice is a {slice_.type}; "
            "compile the program again on this slice"
        )
    if saved.made_by != _maker():
        raise FailedPrecondition(
            f"the executable {saved.name} was compiled by tpuctl {saved.made_by}, this is {_maker()}; "
            "compile the program again"
        )
    return saved


def _maker() -> str:
    return version("tpuctl")
