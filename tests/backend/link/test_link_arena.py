"""The staging arena: shared memory without a name, whose size nobody can change."""

from __future__ import annotations

import os

import pytest

from backend.link import arena
from backend.link.arena import ARENA_BYTES, Arena
from backend.link.framing import MalformedFrame
from backend.link.messages import Region


def test_both_sides_see_the_same_bytes() -> None:
    descriptor = arena.create()
    one, other = Arena(os.dup(descriptor)), Arena(descriptor)
    one.view(Region(100, 5))[:] = b"hello"
    assert bytes(other.view(Region(100, 5))) == b"hello"


def test_its_size_cannot_be_changed_so_no_access_can_fault() -> None:
    descriptor = arena.create()
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)


@pytest.mark.parametrize("region", [Region(-1, 4), Region(0, -1), Region(ARENA_BYTES, 1), Region(4, ARENA_BYTES)])
def test_a_region_outside_is_malformed(region: Region) -> None:
    with pytest.raises(MalformedFrame):
        Arena(arena.create()).view(region)


def test_a_memory_file_that_could_shrink_is_refused() -> None:
    descriptor = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, ARENA_BYTES)
    with pytest.raises(MalformedFrame):
        Arena(descriptor)


def test_any_other_file_is_refused() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with pytest.raises(MalformedFrame):
        Arena(reading)
