"""Which pages of a library a process gives back."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from llvmlite import binding

from backend.pages import give_back

LIBRARY = "libllvmlite.so"


def mapped_kilobytes() -> dict[str, int]:
    """What of the library is in memory: pages of the file, and others."""
    found = {"Rss": 0, "Anonymous": 0}
    ours = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match("[0-9a-f]+-", line):
            ours = line.endswith(f"/{LIBRARY}")
        elif ours and (name := line.partition(":")[0]) in found:
            found[name] += int(line.split()[1])
    return found


def test_a_library_is_unmapped_but_for_what_was_written_and_still_works() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    before = mapped_kilobytes()
    give_back(LIBRARY)
    after = mapped_kilobytes()
    assert after["Anonymous"] == before["Anonymous"] > 0
    assert after["Rss"] < before["Rss"] / 2
    module = binding.parse_assembly("define i32 @seven() { ret i32 7 }")
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    assert ctypes.CFUNCTYPE(ctypes.c_int)(engine.get_function_address("seven"))() == 7


def test_nothing_happens_for_a_library_that_is_not_there() -> None:
    give_back("libnothing.so")
