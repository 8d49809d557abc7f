"""Clients are told where the control plane is; tokens and logins are asked for on the command line."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tpuctl.cli.env import with_ssh_port

TOKENS = "/tpuctl/v1/tokens"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program ``gcloud`` first on PATH that prints how it was called."""
    made = tmp_path / "bin" / "gcloud"
    made.parent.mkdir()
    made.write_text('#!/bin/sh\necho "$CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU" "$@"\n')
    made.chmod(0o755)
    monkeypatch.setenv("PATH", f"{made.parent}{os.pathsep}{os.environ['PATH']}")
    return made


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "export CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU={url}/"),
        ("zsh", "export CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU={url}/"),
        ("fish", "set -gx CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU '{url}/';"),
        ("powershell", "$env:CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU = '{url}/'"),
    ],
)
def test_env_writes_the_syntax_of_each_shell(tpuctl: Any, plane: Any, shell: str, line: str) -> None:
    told = tpuctl("env", "--shell", shell)
    assert told.exit_code == 0
    assert line.format(url=plane.url) in told.stdout.splitlines()


@pytest.mark.parametrize(
    ("client", "variable"),
    [
        ("gcloud", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"),
        ("python", "TPU_API_DISCOVERY_URL"),
        ("terraform", "GOOGLE_TPU_CUSTOM_ENDPOINT"),
        ("skypilot", "GOOGLE_CLOUD_PROJECT"),
    ],
)
def test_env_tells_each_client_what_it_reads(tpuctl: Any, plane: Any, client: str, variable: str) -> None:
    told = tpuctl("env", "--client", client, "--shell", "bash")
    assert told.exit_code == 0
    assert f"export {variable}=" in told.stdout


def test_the_token_is_in_files_only(tpuctl: Any, plane: Any) -> None:
    from tests.tpuctl.cli.conftest import TOKEN

    assert TOKEN not in tpuctl("env", "--client", "gcloud").stdout
    credentials = [path for path in plane.home.iterdir() if path.is_file() and "credentials" in path.name]
    for path in credentials:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_unknown_shell_or_client_is_a_usage_error(tpuctl: Any, plane: Any) -> None:
    assert tpuctl("env", "--shell", "csh").exit_code == 2
    assert tpuctl("env", "--client", "excel").exit_code == 2


@pytest.mark.parametrize(
    ("words", "added"),
    [
        (["compute", "tpus", "tpu-vm", "ssh", "a"], ["--ssh-flag=-p 8022"]),
        (["compute", "tpus", "tpu-vm", "scp", "a:b", "c"], ["--scp-flag=-P 8022"]),
        (["compute", "tpus", "tpu-vm", "list"], []),
        (["compute", "ssh", "a"], []),
    ],
)
def test_gcloud_is_told_the_port_of_tpu_vms(words: list[str], added: list[str]) -> None:
    assert with_ssh_port(words, 8022) == words + added
    assert with_ssh_port(words, 22) == words


def test_gcloud_runs_with_what_it_needs(script: Path, plane: Any, tmp_path: Path) -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "tpuctl", "gcloud", "compute", "tpus", "list", "--help"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == f"{plane.url}/ compute tpus list --help\n"


def test_without_gcloud_it_is_said_where_to_get_it(
    tpuctl: Any, plane: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told = tpuctl("gcloud", "version")
    assert told.exit_code == 1
    assert told.stderr.startswith("tpuctl: gcloud is not installed\n  see https://cloud.google.com/sdk")


def test_a_token_is_shown_once_listed_and_revoked(tpuctl: Any, plane: Any) -> None:
    ada = {"id": "1f", "principal": "ada", "roles": {"p": "viewer"}, "createTime": "2026-12-01T10:00:00Z"}
    plane.set(TOKENS, ada | {"token": "tpuctl_secret"}, method="POST")
    plane.set(TOKENS, {"tokens": [ada]})
    plane.set(f"{TOKENS}/1f", {}, method="DELETE")
    made = tpuctl("auth", "create-token", "ada", "--role", "viewer", "--project", "p")
    assert made.exit_code == 0
    assert "tpuctl_secret" in made.stdout
    assert [body for method, path, body in plane.requests if method == "POST"] == [
        {"id": "", "principal": "ada", "roles": {"p": "viewer"}}
    ]
    listed = tpuctl("auth", "list")
    assert "ada" in listed.stdout
    assert "secret" not in listed.stdout
    assert json.loads(tpuctl("auth", "list", "-o", "json").stdout)[0]["principal"] == "ada"
    assert tpuctl("auth", "revoke", "1f").exit_code == 0
    assert ("DELETE", f"{TOKENS}/1f") in [(method, path) for method, path, _ in plane.requests]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cp", "a"), "give what to copy and where to"),
        (("cp", "a", "b"), "copy between this machine and one slice"),
        (("cp", "x:a", "y:b"), "copy between this machine and one slice"),
        (("cp", "x:a", "x:b"), "copy between this machine and one slice"),
    ],
)
def test_copies_that_cannot_be_are_told(tpuctl: Any, plane: Any, words: tuple[str, ...], said: str) -> None:
    told = tpuctl(*words)
    assert told.exit_code == 2
    assert said in told.stderr
