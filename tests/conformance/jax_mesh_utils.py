"""Do JAX's own mesh_utils tests pass with our devices in the place of its mock ones?

    python tests/conformance/jax_mesh_utils.py /path/to/jax

runs tests/mesh_utils_test.py of the checkout, which should be of the version that is installed, with
``mock_tpu_devices`` answered from our hardware tables. Exits with 1 if a test fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import unittest
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from absl import flags

from backend.hardware import GENERATIONS, AcceleratorType, InvalidTopology, core_locations, device_order, slice_of

KINDS = {row.device_kind: row for row in GENERATIONS.values()}
KINDS |= {"TPU7": GENERATIONS["7x"], "TPU v5e": GENERATIONS["v5e"]}


class OurDevices:
    """Stands for ``mock_tpu_devices``; counts which of the shapes asked for are those of slices."""

    def __init__(self, tests: ModuleType) -> None:
        self.tests = tests
        self.shapes: Counter[str] = Counter()

    def __call__(
        self, x: int, y: int, z: int, kind: str, one_device_per_chip: bool, num_slices: int = 1, reorder: bool = False
    ) -> list[Any]:
        generation = replace(KINDS[kind], devices_per_chip=1 if one_device_per_chip else 2)
        rank = len(generation.pod_shape)
        topology = "x".join(map(str, (x, y, z)[:rank] if z == 1 else (x, y, z)))
        try:
            slice_of(KINDS[kind].name, topology)
            self.shapes["published"] += 1
        except InvalidTopology:
            self.shapes["others"] += 1
        one_slice = AcceleratorType(topology, generation, topology, chips_per_host=min(4, x * y * z))
        devices = [
            self.tests.MockTpuDevice(
                place.id, "tpu", kind, place.process_index, place.coords, place.core_on_chip, place.slice_index
            )
            for place in device_order(core_locations(one_slice, num_slices))
        ]
        return devices[::-1] if reorder else devices


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of jax-ml/jax")
    file = parser.parse_args(arguments).checkout / "tests" / "mesh_utils_test.py"
    spec = importlib.util.spec_from_file_location("mesh_utils_test", file)
    if spec is None or spec.loader is None or not file.is_file():
        parser.error(f"there is no {file}")
    tests = importlib.util.module_from_spec(spec)
    sys.modules["mesh_utils_test"] = tests
    spec.loader.exec_module(tests)
    ours = OurDevices(tests)
    vars(tests)["mock_tpu_devices"] = ours
    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    print(
        f"{result.testsRun} tests with devices of ours, in shapes of slices {ours.shapes['published']} times, "
        f"in others {ours.shapes['others']} times"
    )
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    flags.FLAGS(sys.argv[:1])
    sys.exit(main(sys.argv[1:]))
