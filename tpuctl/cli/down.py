"""tpuctl down: end the control plane."""

from __future__ import annotations

from collections.abc import Sequence


def down() -> None:
    """Stop the control plane. Slices and jobs live on and are found again by the next one."""
    from tpuctl import client
    from tpuctl.cli import terminal
    from tpuctl.cli.steps import step

    if client.running() is None:
        terminal.say("No control plane is running")
        return
    lines = what_lives_on()
    with step("Stopping the control plane", "Stopped the control plane"):
        client.stop()
    for line in lines:
        terminal.say(line)


def what_lives_on() -> list[str]:
    """A line for the jobs and one for the slices that the running control plane knows, with how to end them."""
    from tpuctl import client
    from tpuctl.api.errors import ApiError

    try:
        with client.connect(autostart=False) as plane:
            jobs = [job.name for job in plane.list_jobs() if not job.state.ended]
            zones = [node.name.split("/")[3::2] for node in plane.list_nodes()]
    except ApiError as error:
        return [f"What lives on is not known: {error.message}"]
    cancel = [f"tpuctl cancel job {name}" for name in jobs]
    by_zone = {zone: " ".join(name for of, name in zones if of == zone) for zone, _ in zones}
    delete = [f"tpuctl delete slice --zone {zone} {names}" for zone, names in by_zone.items()]
    return _line("job", len(jobs), "Cancel", cancel) + _line("slice", len(zones), "Delete", delete)


def _line(kind: str, count: int, verb: str, commands: Sequence[str]) -> list[str]:
    if not count:
        return []
    subject, them = (f"1 {kind} lives on", "it") if count == 1 else (f"{count} {kind}s live on", "them")
    return [f"{subject}. {verb} {them}: {'; '.join(commands)}"]
