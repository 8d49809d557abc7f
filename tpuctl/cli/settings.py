"""What the environment sets, checked before it goes into a request."""

from __future__ import annotations

import os


def check() -> None:
    """Raise InvalidArgument or Unauthenticated for a project or a token that no request can carry."""
    from tpuctl.api.errors import Unauthenticated
    from tpuctl.api.names import check_project, default_project

    check_project(default_project())
    token = os.environ.get("TPUCTL_TOKEN", "")
    if not (token.isascii() and token.isprintable()):
        raise Unauthenticated("TPUCTL_TOKEN is not a token: it may hold only printable ASCII letters, on one line")
