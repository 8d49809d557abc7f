"""The slice runtime as a process: ``python -m backend.runtime --directory DIR --name NAME --type v3-8 ...``.

Exit status: 0 after SIGTERM or SIGINT, 2 for bad arguments or a system that is not Linux, 4 if it cannot listen.
"""

from __future__ import annotations

import logging
import os
import sys

from backend.linux import refusal

_BAD_ARGUMENTS = 2

if __name__ == "__main__":
    if message := refusal():
        print(message, file=sys.stderr)
        sys.exit(_BAD_ARGUMENTS)
    from backend.runtime.process import main

    status = main()
    logging.shutdown()
    os._exit(status)  # a launch in flight must not hold up the end of the process
