"""How does bulk data travel without going through the socket? A staging arena in shared memory, cut into regions.

The client makes the arena as an anonymous memory file, seals its size and sends its descriptor with Hello. It has no
name, so nothing is left behind when either side is killed.
"""

from __future__ import annotations

import fcntl
import mmap
import os

from backend.link.framing import MalformedFrame
from backend.link.messages import Region

REGION_BYTES = 4 << 20
REGIONS = 6
ARENA_BYTES = REGIONS * REGION_BYTES
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class Arena:
    """A mapped staging arena; ``memory`` is its bytes."""

    def __init__(self, descriptor: int) -> None:
        """Map the arena behind ``descriptor``, which is closed. Raises MalformedFrame if it could change its size."""
        try:
            sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
            if sealed & _SEALS != _SEALS or os.fstat(descriptor).st_size != ARENA_BYTES:
                raise MalformedFrame("the staging arena is not a sealed memory file of the right size")
            self._map = mmap.mmap(descriptor, ARENA_BYTES)
        except OSError as error:
            raise MalformedFrame(f"the staging arena cannot be mapped: {error}") from error
        finally:
            os.close(descriptor)
        self.memory = memoryview(self._map)

    def view(self, region: Region) -> memoryview:
        """The bytes of ``region``. Raises MalformedFrame if it is not inside the arena."""
        if not 0 <= region.offset <= region.offset + region.size <= ARENA_BYTES:
            raise MalformedFrame("a region outside the staging arena")
        return self.memory[region.offset : region.offset + region.size]


def create() -> int:
    """A descriptor of a new arena; map it with Arena(os.dup(descriptor))."""
    descriptor = os.memfd_create("tpuctl-staging", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, ARENA_BYTES)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return descriptor
