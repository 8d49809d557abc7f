"""What the chips are: generations, accelerator types, torus geometry."""

from backend.hardware.accelerator_types import (
    ACCELERATOR_TYPES,
    AcceleratorType,
    UnknownAcceleratorType,
    accelerator_type,
    pod_type,
    slice_of,
)
from backend.hardware.generations import GENERATIONS, Generation, UnknownGeneration, generation
from backend.hardware.locations import CoreLocation, core_locations, device_order
from backend.hardware.topologies import InvalidTopology
from backend.hardware.torus import Torus

__all__ = [
    "ACCELERATOR_TYPES",
    "GENERATIONS",
    "AcceleratorType",
    "CoreLocation",
    "Generation",
    "InvalidTopology",
    "Torus",
    "UnknownAcceleratorType",
    "UnknownGeneration",
    "accelerator_type",
    "core_locations",
    "device_order",
    "generation",
    "pod_type",
    "slice_of",
]
