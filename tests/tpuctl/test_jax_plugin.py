"""The plugin in somebody's process: inert without a slice, and clear about a package that hides the driver."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from tpuctl import jax_plugin

HEAVY = {"numpy", "jax", "jaxlib", "typer", "pydantic", "httpx", "msgspec", "psutil"}


@pytest.fixture
def script(tmp_path):
    """Run a script that lies beside the user's own package ``backend``."""
    (tmp_path / "backend").mkdir()
    (tmp_path / "backend" / "__init__.py").write_text("print('the user\\'s own')\n")

    def run(code, **variables):
        (tmp_path / "train.py").write_text(code)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TPUCTL_", "JAX_"))}
        command = [sys.executable, "-W", "error", "train.py"]
        return subprocess.run(
            command, cwd=tmp_path, env=kept | variables, capture_output=True, text=True, timeout=60, check=False
        )

    return run


def test_jax_finds_it():
    [plugin] = [found for found in entry_points(group="jax_plugins") if found.name == "tpuctl"]
    assert plugin.load() is jax_plugin


def test_without_a_slice_it_is_inert_beside_a_package_named_backend(script):
    result = script("import sys, jax; print(jax.devices(), 'backend' in sys.modules)", JAX_PLATFORMS="")
    assert (result.returncode, result.stdout, result.stderr) == (0, "[CpuDevice(id=0)] False\n", "")


def test_loading_it_imports_nothing_heavy(script):
    result = script("import sys; from tpuctl import jax_plugin; jax_plugin.initialize(); print(*sys.modules)")
    loaded = set(result.stdout.split())
    assert result.returncode == 0
    assert not HEAVY & loaded
    assert not {name for name in loaded if name.startswith("backend")}


def test_with_a_slice_a_package_that_hides_the_driver_is_named(script, tmp_path):
    result = script("from tpuctl import jax_plugin; jax_plugin.initialize()", TPUCTL_SLICE="unix:///nowhere")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.splitlines()[-2:] == [
        f'ImportError: the package "backend" at {tmp_path / "backend"} hides tpuctl\'s own',
        "rename it or start the script from another folder",
    ]


def test_jax_shows_what_it_says(script, tmp_path):
    result = script("import jax; jax.devices()", JAX_PLATFORMS="tpu,cpu", TPUCTL_SLICE="unix:///nowhere")
    assert result.returncode == 1
    assert f"at {tmp_path / 'backend'} hides tpuctl's own\nrename it" in result.stderr


def test_with_a_slice_it_is_the_driver_that_answers(monkeypatch):
    called = []
    monkeypatch.setenv("TPUCTL_SLICE", "unix:///nowhere")
    monkeypatch.setattr("backend.driver.initialize", lambda: called.append(1))
    jax_plugin.initialize()
    assert called == [1]
