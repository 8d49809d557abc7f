"""Are two modules the same program? What several processes of a job compile is, if they run the same script."""

from __future__ import annotations

import hashlib
import re

import numpy as np
from jaxlib import xla_client

from backend.compiler import stablehlo
from backend.compiler.context import new_context
from backend.compiler.inspection import MARK
from backend.compiler.options import assigned_devices, read_options
from backend.compiler.program import Identity

_KEY = re.compile(rb"(@" + MARK + rb'\(.*?backend_config = )"(?:[^"\\]|\\.)*"')
"""The address in the script's own process that an inspected sharding is told to."""


def identify(module: bytes, compile_options: bytes) -> Identity:
    """See Identity. Raises InvalidArgument for what is no module, or no compile options."""
    options = read_options(compile_options)
    build = options.executable_build_options
    device_ids = assigned_devices(build)
    if build.num_replicas * build.num_partitions == 1:
        build.device_assignment = xla_client.DeviceAssignment.create(np.zeros((1, 1), np.int64))
    with new_context() as context:
        text = stablehlo.parse(module, context).operation.get_asm(enable_debug_info=False, large_elements_limit=None)
    content = _KEY.sub(rb'\1""', text.encode()) + options.SerializeAsString()
    return Identity(hashlib.sha256(content).digest(), device_ids)
