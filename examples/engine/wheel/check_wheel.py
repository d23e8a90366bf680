# SPDX-License-Identifier: MIT
"""Builds the wheel without network, installs it into a fresh environment, and holds the installed module to the vectors.

    /usr/bin/python3 check_wheel.py FOLDER     writes the wheel to FOLDER

numpy is taken from the Python that runs this. Wanted: Debian's python3-pip, -venv, -setuptools, -wheel, -dev, -numpy, pybind11-dev.
"""

import itertools
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
VECTORS = HERE.parents[1] / "vectors"


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, **more)


def build(folder):
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, HERE)
    (wheel,) = folder.glob("specdec_verify-*.whl")
    return wheel


def check_contents(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    wanted = "specdec-stubs/__init__.pyi", "specdec_vectors/check_engine.py", "specdec_vectors/check_engine.c", "specdec_vectors/vectors.json"
    for name in wanted:
        assert name in names, f"{wheel} has no {name}: {names}"
    assert any(name.endswith("/LICENSE") for name in names), f"{wheel} has no licence: {names}"
    assert (HERE / "LICENSE").read_bytes() == (HERE.parents[2] / "LICENSE").read_bytes(), "LICENSE is not the repository's"


def count_acquitted(printed):
    """Of all rules, in the table that check_engine.py prints."""
    lines = [line.split() for line in printed.splitlines()]
    head = next(k for k, words in enumerate(lines) if words[:2] == ["rule", "cases"])
    column = lines[head].index("acquitted")
    rows = itertools.takewhile(lambda words: len(words) > column and words[column].isdigit(), lines[head + 1:])
    return sum(int(words[column]) for words in rows)


def check_installed(wheel, environment):
    run(sys.executable, "-m", "venv", "--system-site-packages", environment)
    python = environment / "bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", wheel)
    where = run(python, "-c", "import specdec; print(specdec.__file__)", cwd=environment, capture_output=True, text=True).stdout
    assert str(environment) in where, f"specdec is imported from {where}"
    judged = subprocess.run([python, "-m", "specdec_vectors.check_engine", VECTORS / "engines/specdec_engine.py", "--samples", "300"],
                            cwd=environment, stdout=subprocess.PIPE, text=True)
    assert judged.returncode == 0 and count_acquitted(judged.stdout) >= 180, judged.stdout  # a case may not be taken, and so not judged


with tempfile.TemporaryDirectory() as temporary:
    made = pathlib.Path(sys.argv[1])
    for old in made.glob("specdec_verify-*.whl"):
        old.unlink()
    wheel = build(made)
    check_contents(wheel)
    check_installed(wheel, pathlib.Path(temporary).resolve())
    print(f"{wheel.name} is installed, and acquitted: {wheel.stat().st_size} bytes")
