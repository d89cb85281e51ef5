"""Prometheus and Alertmanager as Debian has them, unpacked beside the checkout; without them the tests are skipped."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGES = ("prometheus", "prometheus-alertmanager")
TEMPLATES = b"/usr/share/prometheus/alertmanager"
BESIDE = b"./" * (len(TEMPLATES) // 2)
"""Debian's Alertmanager reads its templates where only an installed package puts them: here it reads them in the folder in which it
is started, by a name of the same length."""
CACHE = Path(__file__).parents[2] / "build" / "monitoring"


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of `prometheus`, `promtool` and `prometheus-alertmanager`."""
    there = CACHE / "usr" / "bin"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (there / "prometheus-alertmanager").exists():
            if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
                pytest.skip("there is no apt-get here, which brings Prometheus")
            fetched = subprocess.run(
                ["apt-get", "download", "-qq", *PACKAGES], cwd=CACHE, capture_output=True, text=True, check=False
            )
            if fetched.returncode != 0:
                pytest.skip(f"apt-get has no {' and '.join(PACKAGES)} here: {fetched.stderr.strip()[-200:]}")
            for package in CACHE.glob("*.deb"):
                subprocess.run(["dpkg", "-x", package, CACHE], check=True)
            manager = there / "prometheus-alertmanager"
            manager.write_bytes(manager.read_bytes().replace(TEMPLATES, BESIDE))
    return there
