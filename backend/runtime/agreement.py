"""Can a launch of several processes start, and if not, who is to blame? The launch rules, as pure functions.

All processes of a job launch the same programs in the same order. A process comes to its launches one after the other,
and waits at each for the others that it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backend.runtime.parties import Appointment, Party, Run, Trouble

_ADVICE = "all processes of a job must launch the same programs in the same order"


def obstacle(run: Run, appointment: Appointment, now: float) -> Trouble | None:
    """Why a launch that some wait for can never start; None if it still may."""
    for process in _missing(run, appointment):
        party = run.parties.get(process)
        if party is not None and party.ended:
            text = f"{_name(party)} ended without launching {appointment.label}; {_last(party, now)}"
            return Trouble(text, process)
    return _disagreement(run, circle) if (circle := _circle(run, appointment)) else None


def is_late(run: Run, appointment: Appointment) -> bool:
    """Whether somebody keeps the others waiting who neither compiles nor computes, nor waits for others in turn."""
    return any(_keeps_waiting(run.parties.get(process)) for process in _missing(run, appointment))


def lateness(run: Run, appointment: Appointment, now: float) -> Trouble | None:
    """Who keeps a launch waiting, and with what; None if only those do who wait for others in turn."""
    excuses = {
        process: text
        for process in _missing(run, appointment)
        if (text := _excuse(process, run.parties.get(process), appointment.label, now))
    }
    return Trouble("; ".join(excuses.values()), _alone(list(excuses))) if excuses else None


def _missing(run: Run, appointment: Appointment) -> list[int]:
    return [process for process in sorted(appointment.processes) if _at(run, process) != appointment.signature]


def _at(run: Run, process: int) -> bytes | None:
    """The launch at which a process waits."""
    party = run.parties.get(process)
    return party.appointment.signature if party is not None and party.appointment is not None else None


def _keeps_waiting(party: Party | None) -> bool:
    return party is None or (party.appointment is None and not party.compiling and party.idle())


def _excuse(process: int, party: Party | None, label: str, now: float) -> str:
    if party is None:
        return f"worker {process} has not attached to the slice, and has not launched {label}"
    if party.appointment is not None:
        return ""
    if party.compiling:
        return f"worker {process} is compiling, and has not launched {label}; {_last(party, now)}"
    if not party.idle():
        return f"worker {process} has not come to {label}: it is running {party.last_label}"
    return f"worker {process} has not launched {label}; {_last(party, now)}"


def _last(party: Party, now: float) -> str:
    if not party.last_label:
        return "it has launched nothing"
    return f"it last launched {party.last_label} {now - party.last_time:.0f} s ago"


def _name(party: Party) -> str:
    return f"worker {party.process} (pid {party.pid})"


def _circle(run: Run, start: Appointment) -> list[Appointment]:
    """Launches that wait for each other, ``start`` among them; empty if there are none."""
    path: list[Appointment] = []
    seen: set[bytes] = set()

    def leads_back(appointment: Appointment) -> bool:
        seen.add(appointment.signature)
        path.append(appointment)
        for process in _missing(run, appointment):
            party = run.parties.get(process)
            following = party.appointment if party is not None else None
            if following is None:
                continue
            if following.signature == start.signature:
                return True
            if following.signature not in seen and leads_back(following):
                return True
        path.pop()
        return False

    return path if leads_back(start) else []


def _disagreement(run: Run, appointments: Iterable[Appointment]) -> Trouble:
    """Who launched what, the fewest first: "worker 1 launched jit_a (x.py:3) where workers 0 and 2 launched ..."."""
    groups = [
        (appointment.label, [process for process in sorted(run.parties) if _at(run, process) == appointment.signature])
        for appointment in appointments
    ]
    groups.sort(key=lambda group: (len(group[1]), [-process for process in group[1]]))
    labels: set[str] = set()
    phrases = []
    for label, processes in groups:
        other = " of other shapes, constants or devices" if label in labels else ""
        labels.add(label)
        phrases.append(f"{_workers(processes)} launched {label}{other}")
    text = " where ".join(phrases[:2]) + "".join(f" and {phrase}" for phrase in phrases[2:])
    return Trouble(f"{text}; {_ADVICE}", _alone(groups[0][1]))


def _alone(processes: Sequence[int]) -> int | None:
    return processes[0] if len(processes) == 1 else None


def _workers(processes: Sequence[int]) -> str:
    if len(processes) == 1:
        return f"worker {processes[0]}"
    return f"workers {', '.join(map(str, processes[:-1]))} and {processes[-1]}"
