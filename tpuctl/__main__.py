"""The entry point: ``tpuctl`` and ``python -m tpuctl``."""

from __future__ import annotations

import sys


def main() -> None:
    from tpuctl.cli.entry import run

    sys.exit(run())


if __name__ == "__main__":
    main()
