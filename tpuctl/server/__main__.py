"""The control plane as a process: `python -m tpuctl.server`."""

from __future__ import annotations

import sys

from tpuctl.api.errors import Aborted, ApiError
from tpuctl.server.serve import serve

FAILED = 1
OTHER_RUNS = 75
"""EX_TEMPFAIL: another control plane has this home; who only wanted one to run can use that."""


def main() -> int:
    try:
        serve()
    except Aborted as error:
        print(error.message, file=sys.stderr)
        return OTHER_RUNS
    except ApiError as error:
        print(error.message, file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
