"""What the chips are: generations, accelerator types, torus geometry."""

from backend.hardware.accelerator_types import (
    ACCELERATOR_TYPES,
    AcceleratorType,
    UnknownAcceleratorType,
    accelerator_type,
)
from backend.hardware.generations import GENERATIONS, Generation, generation
from backend.hardware.torus import CoreLocation, core_locations

__all__ = [
    "ACCELERATOR_TYPES",
    "GENERATIONS",
    "AcceleratorType",
    "CoreLocation",
    "Generation",
    "UnknownAcceleratorType",
    "accelerator_type",
    "core_locations",
    "generation",
]
