"""A short form of api_fuzz.py."""

from __future__ import annotations

from pathlib import Path

from api_fuzz import fuzz


def test_no_malformed_request_fails_or_changes_anything_when_it_is_refused(tmp_path: Path) -> None:
    outcome = fuzz(tmp_path, 400, 3)
    assert outcome.sent == 400
    assert outcome.failures == {}
    assert outcome.changed == {}
    assert {200, 400, 403, 404} <= outcome.statuses.keys()
