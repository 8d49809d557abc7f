"""What `tpuctl` exits with. A job's own exit status passes through `run job`."""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
NOT_ALLOWED = 4
EXHAUSTED = 5
INTERRUPTED = 130

BY_RPC_CODE = {
    3: USAGE,  # INVALID_ARGUMENT
    5: NOT_FOUND,
    7: NOT_ALLOWED,  # PERMISSION_DENIED
    8: EXHAUSTED,  # RESOURCE_EXHAUSTED
    16: NOT_ALLOWED,  # UNAUTHENTICATED
}


def of_rpc_code(code: int) -> int:
    """The exit code for a google.rpc.Code."""
    return BY_RPC_CODE.get(code, FAILED)
