"""The keys of inspected shardings are addresses of the script's process: none that comes from elsewhere is called."""

from __future__ import annotations

import pytest

from backend.driver.inspections import tell
from backend.errors import Internal


@pytest.mark.parametrize("key", [b"", bytes(8), bytes(range(16)), b"not an address at all"])
def test_only_keys_of_the_module_are_called(key: bytes) -> None:
    with pytest.raises(Internal, match="does not inspect"):
        tell([(key, b"")], b"a module without any inspection")
