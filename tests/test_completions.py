"""Shell completion: the scripts are in step with the commands, and real shells complete real names, quickly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pexpect
import pytest

from tpuctl.cli import command_tree, completion_scripts, tab
from tpuctl.cli.app import app

ROOT = Path(__file__).parents[1]
LISTS = {
    "/v2/projects/local/locations/-/nodes": {"nodes": [{"name": "projects/local/locations/z/nodes/demo"}]},
    "/tpuctl/v1/projects/local/jobs": {
        "jobs": [{"name": "mnist-1", "state": "RUNNING"}, {"name": "mnist-2", "state": "FAILED"}]
    },
    "/v2/projects/local/locations/europe-west4-a/acceleratorTypes": {
        "acceleratorTypes": [{"type": "v2-8"}, {"type": "v3-8"}]
    },
}


class Lists(BaseHTTPRequestHandler):
    """The lists that names come from."""

    def do_GET(self):
        data = json.dumps(LISTS[self.path]).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def home(tmp_path):
    """The home of a control plane that knows a slice and two jobs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Lists)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    (tmp_path / "token").write_text("a-secret")
    url = f"http://127.0.0.1:{server.server_address[1]}"
    (tmp_path / "server.json").write_text(json.dumps({"pid": os.getpid(), "started": 0.0, "url": url}))
    yield tmp_path
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def environment(tmp_path):
    """A PATH on which `tpuctl` is this Python's, for a control plane that may or may not run."""
    program = tmp_path / "bin" / "tpuctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tpuctl "$@"\n')
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TPUCTL_")}
    return kept | {"PATH": f"{program.parent}:{os.environ['PATH']}", "TPUCTL_HOME": str(tmp_path)}


def bash(line, environment):
    """What real bash puts into COMPREPLY for a line, through the function that `complete` has registered."""
    words = line.split(" ")
    script = f"""
        source {ROOT}/completions/tpuctl.bash
        function=$(complete -p tpuctl | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        COMP_WORDS=({" ".join(words)}{' ""' if line.endswith(" ") else ""})
        COMP_CWORD={len(words) - 1}
        $function tpuctl
        compgen -W "${{COMPREPLY[*]}}" -- {words[-1] or "''"}
    """
    result = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=environment,
        cwd=environment["TPUCTL_HOME"],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert result.stderr == ""
    return result.stdout.split()


@pytest.mark.parametrize(("shell", "name"), completion_scripts.FILE_NAMES.items())
def test_the_scripts_are_in_step(shell, name):
    assert (ROOT / "completions" / name).read_text() == completion_scripts.script(shell)


def test_the_command_tree_is_in_step():
    assert command_tree.PATH.read_text() == command_tree.dump(app), "run python -m tpuctl.cli.completion_scripts"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tpuctl des", ["describe"]),
        ("tpuctl describe ", ["job", "pod", "queued-resource", "slice", "type"]),
        ("tpuctl delete slice ", ["demo"]),
        ("tpuctl logs mni", ["mnist-1", "mnist-2"]),
        ("tpuctl cancel job ", ["mnist-1"]),
        ("tpuctl create slice x --type v2-", ["v2-128", "v2-256", "v2-32", "v2-512", "v2-8"]),
        ("tpuctl run job mn", ["mnist"]),
        ("tpuctl run job --slice ", ["demo"]),
        ("tpuctl list jobs -o j", ["json"]),
        ("tpuctl create slice x --no", ["--no-wait"]),
        ("tpuctl describe slice zebra", []),
        ("tpuctl run job -- python ", []),
    ],
)
def test_bash_completes(home, environment, line, expected):
    """The control plane has 150 ms to answer; on a machine that is busy, several times."""
    assert expected in (bash(line, environment) for _ in range(4))


@pytest.mark.parametrize("line", ["tpuctl delete slice ", "tpuctl run job --type "])
def test_without_a_control_plane_names_are_missing_and_nothing_is_said_or_started(environment, tmp_path, line):
    assert bash(line, environment) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]


def test_a_control_plane_that_hangs_does_not_hold_up_the_shell(home, environment, monkeypatch):
    monkeypatch.setattr(Lists, "do_GET", lambda self: time.sleep(2))
    started = time.monotonic()
    assert bash("tpuctl delete slice ", environment) == []
    assert time.monotonic() - started < 1.5


def test_a_tab_in_a_real_bash_writes_the_name(home, environment):
    shell = pexpect.spawn(
        "bash", ["--norc", "--noprofile"], env=environment | {"PS1": "ready> "}, timeout=20, encoding="utf-8"
    )
    try:
        shell.expect_exact("ready> ")
        shell.sendline(f"source {ROOT}/completions/tpuctl.bash")
        shell.expect_exact("ready> ")
        shell.send("tpuctl delete slice d\t")
        shell.expect_exact("demo")
    finally:
        shell.close(force=True)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_its_script(home, environment):
    check = f"autoload -U compinit; compinit -D; source {ROOT}/completions/_tpuctl; print $_comps[tpuctl]"
    result = subprocess.run(
        ["zsh", "-f", "-c", check], env=environment, capture_output=True, text=True, timeout=20, check=True
    )
    assert result.stdout.strip() == "_tpuctl_completion"


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(home, environment):
    check = f"source {ROOT}/completions/tpuctl.fish; complete -C 'tpuctl delete slice '"
    result = subprocess.run(
        ["fish", "-c", check], env=environment, capture_output=True, text=True, timeout=20, check=True
    )
    assert result.stdout.split() == ["demo"]


def test_zsh_and_fish_get_meanings_with_the_commands(home, monkeypatch):
    monkeypatch.setenv("_TPUCTL_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "tpuctl describe ")
    assert tab.answer() == (
        '_arguments \'*: :(("job":"Describe a job\\\\: its command, its metrics, its artifacts."\n'
        '"pod":"Draw a pod with its slices\\\\: who has which chips, what is free, reserved or broken."\n'
        '"queued-resource":"Describe a queued resource\\\\: its state, what it waits for, its place in the queue, '
        'what has happened."\n'
        '"slice":"Describe a slice\\\\: its endpoint, its chips, and what is in their HBM."\n'
        '"type":"Describe an accelerator type\\\\: its chips, hosts and links on the torus, and its speed."))\'',
        0,
    )
    monkeypatch.setenv("_TPUCTL_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert tab.answer()[0].splitlines()[0] == "job\tDescribe a job: its command, its metrics, its artifacts."
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "is-args")
    assert tab.answer() == ("", 0)


def test_tab_imports_neither_typer_nor_pydantic(environment):
    code = "import sys; from tpuctl.cli import tab; tab.offers(['delete', 'slice'], ''); print(*sys.modules)"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert not {"typer", "pydantic", "httpx", "rich"} & set(result.stdout.split())


def install_completion(shell, environment):
    environment |= {"HOME": environment["TPUCTL_HOME"], "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "tpuctl", "--install-completion", shell]
    subprocess.run(command, env=environment, capture_output=True, check=True, timeout=20)


def test_install_completion_writes_to_the_shell_s_start_file(environment, tmp_path):
    install_completion("bash", environment)
    assert "tpuctl" in (tmp_path / ".bashrc").read_text()
    assert "_tpuctl_completion" in (tmp_path / ".bash_completions" / "tpuctl.sh").read_text()


@pytest.mark.parametrize(
    ("shell", "path"), [("zsh", ".zfunc/_tpuctl"), ("fish", ".config/fish/completions/tpuctl.fish")]
)
def test_install_completion_writes_the_same_script(environment, tmp_path, shell, path):
    install_completion(shell, environment)
    ready = (ROOT / "completions" / completion_scripts.FILE_NAMES[shell]).read_text()
    assert (tmp_path / path).read_text().strip() == ready.strip()


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_the_first_tab_in_a_fresh_zsh_completes(home, environment, tmp_path):
    install_completion("zsh", environment)
    shell = pexpect.spawn("zsh", ["-i"], env=environment | {"HOME": str(tmp_path)}, timeout=20, encoding="utf-8")
    try:
        shell.sendline("PS1='ready''> '")
        shell.expect_exact("ready> ")
        shell.send("tpuctl delete slice d\t")
        shell.expect_exact("demo")
    finally:
        shell.close(force=True)
