"""A short form of api_crash.py."""

from __future__ import annotations

from pathlib import Path

from api_crash import crash


def test_nothing_is_lost_or_half_done_when_it_is_killed_at_random_moments(tmp_path: Path) -> None:
    story, kills = crash(tmp_path / "home", 25, 5)
    assert kills > 1
    assert story.promised
    assert story.done >= len(set(story.promised.values()))
