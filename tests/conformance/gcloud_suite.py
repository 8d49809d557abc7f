"""Does the installed gcloud do here all that it can do with Cloud TPU? GA and alpha tracks, command by command.

    python tests/conformance/gcloud_suite.py [WORD]

runs them on a control plane of its own and prints a table; with WORD, only those commands that hold it. Exits with 1
if one fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

TPU = ("compute", "tpus")
SECONDS = 120


class Step(NamedTuple):
    """A command in its tracks ("" is GA), and what its output must hold."""

    tracks: tuple[str, ...]
    words: str
    shows: str = ""


GA, ALPHA, ALL = ("",), ("alpha",), ("", "alpha")
STEPS = (
    Step(ALL, "locations list", "us-central2-b"),
    Step(ALL, "locations describe us-central2-b", "us-central2-b"),
    Step(ALL, "topologies list", "v4"),
    Step(ALL, "tpu-vm accelerator-types list", "v4-8"),
    Step(ALL, "tpu-vm accelerator-types describe v4-8", "v4-8"),
    Step(ALL, "tpu-vm versions list", "tpu-vm"),
    Step(ALL, "tpu-vm versions describe tpu-vm-base", "tpu-vm-base"),
    Step(ALL, "tpu-vm service-identity create", "service-"),
    Step(ALPHA, "reservations list"),
    Step(ALL, "tpu-vm create {n} --accelerator-type=v4-8 --version=tpu-vm-base --labels=a=b --tags=t --metadata=k=v"),
    Step(ALL, "tpu-vm list", "{n}"),
    Step(ALL, "tpu-vm list --zone=-", "{n}"),
    Step(ALL, "tpu-vm describe {n}", "state: READY"),
    Step(ALL, "tpu-vm get-guest-attributes {n}", "hostname"),
    Step(ALL, "tpu-vm update {n} --update-labels=c=d --description=text --add-tags=u", "Updated"),
    Step(ALL, "tpu-vm stop {n}", "done: true"),
    Step(ALL, "tpu-vm start {n}", "done: true"),
    Step(ALPHA, "tpu-vm attach-disk {n} --disk=projects/local/zones/us-central2-b/disks/d"),
    Step(ALPHA, "tpu-vm detach-disk {n} --disk=projects/local/zones/us-central2-b/disks/d"),
    Step(ALPHA, "tpu-vm simulate-maintenance-event {n} --workers=0"),
    Step(ALPHA, "tpu-vm perform-maintenance {n}"),
    Step(ALL, "tpu-vm ssh {n} --dry-run --command=true", "ssh"),
    Step(ALL, "tpu-vm scp {n}:a b --dry-run", "scp"),
    Step(ALL, "tpu-vm delete {n}", "Deleted"),
    Step(ALL, "queued-resources create {q} --node-id={n} --accelerator-type=v4-8 --runtime-version=tpu-vm-base"),
    Step(ALL, "queued-resources list", "{q}"),
    Step(ALL, "queued-resources describe {q}", "{n}"),
    Step(ALPHA, "queued-resources perform-maintenance {q} --node-names={n}"),
    Step(ALL, "queued-resources reset {q}"),
    Step(ALL, "queued-resources delete {q} --force"),
    Step(("", "beta", "alpha"), "accelerator-types list", "v4-8"),
    Step(("", "beta", "alpha"), "accelerator-types describe v4-8", "v4-8"),
    Step(("", "beta", "alpha"), "versions list"),
    Step(("", "beta", "alpha"), "versions describe 2.12.0", "2.12.0"),
    Step(("", "beta", "alpha"), "create {n} --accelerator-type=v4-8 --version=2.12.0"),
    Step(("", "beta", "alpha"), "list", "{n}"),
    Step(("", "beta", "alpha"), "describe {n}", "READY"),
    Step(("", "beta", "alpha"), "stop {n}"),
    Step(("", "beta", "alpha"), "start {n}"),
    Step(("", "beta", "alpha"), "reimage {n} --version=2.12.0"),
    Step(("", "beta", "alpha"), "delete {n}"),
    Step(GA, "execution-groups list"),
)


def run(track: str, words: str, environment: dict[str, str]) -> tuple[bool, str]:
    command = ["gcloud", *([track] if track else []), *TPU, *words.split(), *zone(words)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False, f"no end after {SECONDS} s"
    return done.returncode == 0, done.stdout + done.stderr


def zone(words: str) -> list[str]:
    without = words.startswith("locations") or "--zone" in words
    return [] if without else ["--zone=us-central2-b"]


def main() -> int:
    if shutil.which("gcloud") is None:
        print("gcloud is not installed")
        return 0
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory() as folder:
        home = {"TPUCTL_HOME": str(Path(folder, "home")), "TPUCTL_PORT": "0", "CLOUDSDK_CONFIG": str(Path(folder, "g"))}
        base = os.environ | home
        tpuctl = [sys.executable, "-m", "tpuctl"]
        lines = subprocess.run(
            [*tpuctl, "env", "--shell", "bash"], env=base, capture_output=True, text=True, check=True
        ).stdout
        pairs = [line.removeprefix("export ").partition("=") for line in lines.splitlines() if line[:6] == "export"]
        environment = base | {name: value.strip("'") for name, _, value in pairs}
        try:
            return table(environment, wanted)
        finally:
            subprocess.run([*tpuctl, "down"], env=base, capture_output=True, check=False)


def table(environment: dict[str, str], wanted: str) -> int:
    print("| gcloud compute tpus | GA | beta | alpha |\n|---|---|---|---|")
    failures: list[str] = []
    marks: dict[Step, dict[str, str]] = {step: {} for step in STEPS}
    for track in ("", "beta", "alpha"):
        for step in STEPS:
            if track not in step.tracks or wanted not in step.words:
                continue
            names = {"n": f"n{track}", "q": f"q{track}"}
            passed, output = run(track, step.words.format(**names), environment)
            passed = passed and step.shows.format(**names) in output
            marks[step][track] = "pass" if passed else "FAIL"
            print(f"{track or 'GA'}: {step.words}: {marks[step][track]}", file=sys.stderr, flush=True)
            if not passed:
                failures.append(f"{track} {step.words}\n{output[-600:]}")
    for step, found in marks.items():
        if found:
            words = step.words.split(" {")[0].split(" --")[0]
            print(f"| {words} | {found.get('', '')} | {found.get('beta', '')} | {found.get('alpha', '')} |")
    count = sum(len(found) for found in marks.values())
    print(f"\n{count - len(failures)} of {count} pass", *failures, sep="\n\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
