# SPDX-License-Identifier: MIT
"""Compiles the Python module for a wheel. EIGEN_INCLUDE and PYBIND11_INCLUDE name the folders of these headers, if they are elsewhere."""

import atexit
import os
import pathlib
import re
import shutil
import tempfile

from setuptools import Extension, setup

ROOT = pathlib.Path(os.path.relpath(pathlib.Path(__file__).resolve().parents[3]))  # setuptools wants relative paths
VERSION = re.findall(r"VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (ROOT / "include/specdec/version.hpp").read_text())


def folders():
    """Of the headers. A pybind11 that pip has installed tells its own."""
    try:
        from pybind11 import get_include
        pybind11 = get_include()
    except ImportError:
        pybind11 = "/usr/include"
    return [str(ROOT / "include"), os.environ.get("EIGEN_INCLUDE", "/usr/include/eigen3"), os.environ.get("PYBIND11_INCLUDE", pybind11)]


made = tempfile.mkdtemp()  # nothing is written into the sources
atexit.register(shutil.rmtree, made)
setup(
    version=".".join(VERSION),
    ext_modules=[Extension("specdec", ["specdec.cpp"], include_dirs=folders(), language="c++",
                           extra_compile_args=["-std=c++20", "-O2", "-g0", "-fvisibility=hidden", "-w"])],
    packages=["specdec-stubs", "specdec_vectors"],
    package_dir={"specdec_vectors": str(ROOT / "examples/vectors")},
    package_data={"specdec-stubs": ["__init__.pyi"], "specdec_vectors": ["vectors.json", "schema.json", "check_engine.c"]},
    license_files=["LICENSE"],
    options={"build": {"build_base": made}, "egg_info": {"egg_base": made}},
)
