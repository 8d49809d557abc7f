"""A slice runtime for a whole pod whose chips all belong to one host, so that one script drives them alone.

On Cloud TPU every 4 chips have a host of their own, and a process on each; what the chips do is the same.
"""

from __future__ import annotations

import os
import sys

from backend.hardware.accelerator_types import ACCELERATOR_TYPES, AcceleratorType
from backend.hardware.generations import generation
from backend.runtime.process import main

TOPOLOGIES = {8: "2x2", 32: "4x4", 64: "4x8", 128: "8x8", 512: "16x16", 1024: "16x32", 2048: "32x32"}
"""Chips of a v3 slice by its number of cores, two a chip."""

if __name__ == "__main__":
    for cores, topology in TOPOLOGIES.items():
        row = AcceleratorType(f"v3-{cores}", generation("v3"), topology, chips_per_host=cores // 2)
        ACCELERATOR_TYPES[row.name] = row
    status = main(sys.argv[1:])
    os._exit(status)
