# SPDX-License-Identifier: MIT
"""Builds test programs against a copy of the headers in which one text is another, and runs them."""

import collections
import contextlib
import html
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = REPOSITORY / "include/specdec"

CXX = os.environ.get("CXX") or next(filter(shutil.which, ["clang++-16", "clang++", "g++"]))
LLD = "clang" in CXX and pathlib.Path(shutil.which(CXX) or "").resolve().with_name("ld.lld").exists()  # links fast
FLAGS = ["-std=c++20", "-w", *shlex.split(os.environ.get("CXXFLAGS", "")), "-isystem", "/usr/include/eigen3",
         f'-DSPECDEC_EXAMPLES="{REPOSITORY}/examples/apps"', f"-I{REPOSITORY}/examples/apps/tests/llama_declarations"]
# MPI tests run as three processes, perhaps more than there are cores.
EXAMPLES = [f"examples/{door}" for door in ("apps", "write", "prove")]  # what programs include of one another
MPI = "tests/mpi/"
MPIRUN = ["mpirun", "--oversubscribe", "-n", "3"]
# Clang takes memory from the system seldom and in large pages: saves a sixth of its time.
os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=134217728")
os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Compiling is most of the work, so only tests that would run longer than this (in seconds) are optimised.
SLOW = 5
MEMORY_KB = 6_000_000


class BuildError(Exception):
    pass


def mpi_flags(source, step):
    """What a test of MPI is compiled or linked with."""
    if not source.startswith(MPI):
        return []
    if not shutil.which("mpicxx"):
        raise BuildError("MPI is not installed (Debian: libopenmpi-dev)")
    return shlex.split(subprocess.run(["mpicxx", f"--showme:{step}"], capture_output=True, text=True).stdout)


# Without support/catch.hpp, which includes a header of the library: that one may be the mutant's.
CATCH = "#if __has_include(<catch2/catch_all.hpp>)\n#include <catch2/catch_all.hpp>\n#else\n#include <catch2/catch.hpp>\n#endif\n"


class Tree:
    """The headers, those of one mutant or as they are, and what was built against them."""

    def __init__(self, root, folder):
        self.root = root
        self.folder = folder
        self.objects = {}
        self.lock = threading.Lock()

    def includes(self):
        return [f"-I{self.root / folder}" for folder in ("include", "bench", *EXAMPLES)]


@contextlib.contextmanager
def planted(work, header, text):
    """A tree in which the header (its path in the repository) has this text."""
    with tempfile.TemporaryDirectory(dir=work) as directory:
        root = pathlib.Path(directory)
        for folder in ("include", "bench", "examples"):
            shutil.copytree(REPOSITORY / folder, root / folder, ignore=lambda folder, names: [
                name for name in names if "." in name and not name.endswith((".hpp", ".h"))])
        (root / header).write_text(text)
        yield Tree(root, root)


class Suite:
    def __init__(self, work, trusts_tests, optimises=True):
        self.work = work
        self.optimises = optimises  # tests that are slow; or else these are only begun
        self.trusts_tests = trusts_tests  # they pass without a mutant
        self.level = collections.defaultdict(lambda: "-O0")  # optimisation level, by test
        self.seconds = collections.defaultdict(lambda: SLOW)  # how long a test usually takes
        self.needs = {}  # the files that a test or a support source includes
        self.unmutated = {}  # what run() says of a test without a mutant
        self.locks = {}  # held while a test is run without a mutant
        self.lock = threading.Lock()
        self.precompiled = set()
        self.plain = Tree(REPOSITORY, work)
        self.link = [*(["-fuse-ld=lld"] if LLD else []), *shlex.split(os.environ.get("LDFLAGS", ""))]
        threading.Thread(target=self.precompile, args=["-O0"]).start()  # beside what follows
        three = "#if __has_include(<catch2/catch_all.hpp>)\nthree\n#endif"
        if "three" in self.command("-E", "-P", "-x", "c++", "-", text=three):
            self.link += ["-lCatch2Main", "-lCatch2"]
        else:
            self.command("-O0", "-c", REPOSITORY / "tests/support/main.cpp", "-o", work / "main.o")
            self.link.insert(0, work / "main.o")

    def command(self, *arguments, text=None):
        done = subprocess.run([CXX, *FLAGS, *map(str, arguments)], capture_output=True, text=True, input=text)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            raise BuildError(errors[0] if errors else done.stderr[:200])
        return done.stdout

    def precompile(self, level):
        """What no mutant touches, compiled once: all that the headers and the tests include of others'."""
        header = self.work / f"common{level}.hpp"
        with self.lock:
            if level not in self.precompiled:
                sources = [file for folder in ("include", "tests", "bench/acceptance", "bench/tests", "examples/apps/tests",
                                               "examples/write/drafters", "examples/apps/transformer")
                           for file in (REPOSITORY / folder).rglob("*.[hc]pp")]
                names = {name for file in sources for name in re.findall(r"^#include <([a-z_]+|Eigen/\w+)>$",
                                                                         file.read_text(), re.MULTILINE)}
                header.write_text("".join(f"#include <{name}>\n" for name in sorted(names)) + CATCH)
                self.command(level, "-x", "c++-header", header, "-o", f"{header}.gch")
                self.precompiled.add(level)
        return header

    def compile(self, source, tree, level):
        """The object of a test or a support source against the tree's headers. `source` is its path without .cpp."""
        out = tree.folder / (source.replace("/", "-") + level)
        file = REPOSITORY / f"{source}.cpp"
        chooses_eigen = "#define EIGEN_" in file.read_text()  # Eigen macros must come before its first include
        self.command(*([] if chooses_eigen else ["-include", self.precompile(level)]), f"-I{REPOSITORY}/tests",
                     *tree.includes(), *mpi_flags(source, "compile"), level, "-MMD", "-c", file, "-o", f"{out}.o")
        if source not in self.needs:
            read = pathlib.Path(f"{out}.d").read_text().replace("\\\n", " ").replace(f"{tree.root}/", f"{REPOSITORY}/")
            self.needs[source] = {os.path.normpath(path) for path in read.split()}
        return f"{out}.o"

    def support(self, source, tree, level):
        with tree.lock:
            if (source, level) not in tree.objects:
                tree.objects[source, level] = self.compile(source, tree, level)
            return tree.objects[source, level]

    def build(self, test, tree, level, header=None):
        """The test's program. `header` is the one that differs in the tree, by its path in the repository."""
        objects = [self.compile(test, tree, level)]
        for source in sorted((REPOSITORY / "tests/support").glob("*.cpp")):
            if str(source.with_suffix(".hpp")) in self.needs[test]:
                # Templates that are instantiated only there must be mutated as well.
                name = f"tests/support/{source.stem}"
                objects.append(self.support(name, self.plain, level))
                if header and str(REPOSITORY / header) in self.needs[name]:
                    objects[-1] = self.support(name, tree, level)
        program = tree.folder / (test.replace("/", "-") + level)
        self.command(*objects, *self.link, *mpi_flags(test, "link"), "-o", program)
        return program

    def run(self, test, program, limit):
        """("passes", "fails", "timed out" or "did not start", the name of the first case that does not pass)"""
        # Seconds of processor time, as other programs may keep the processor busy. Waiting costs none of it.
        limits = f'ulimit -v {MEMORY_KB}; ulimit -S -t {int(limit) + 1}; exec "$@"'
        try:
            start = MPIRUN if test.startswith(MPI) else []
            done = subprocess.run(["sh", "-c", limits, "sh", *start, program, "--abort", "-r", "xml"],
                                  capture_output=True, timeout=20 * limit)
        except subprocess.TimeoutExpired:
            return "timed out", f"({test} takes longer than {20 * limit:.0f} s)"
        if done.returncode == -signal.SIGXCPU:
            return "timed out", f"({test} takes longer than {limit:.0f} s)"
        if done.returncode == 0:
            return "passes", test
        names = re.findall(r'<TestCase name="([^"]*)"', done.stdout.decode(errors="replace"))
        if names:
            return "fails", html.unescape(names[-1])
        # Without a case it may be that the program cannot start at all.
        return "did not start" if self.trusts_tests else "fails", f"({test} ends with status {done.returncode})"

    def only_begun(self, test):
        return not self.optimises and (self.trusts_tests or self.unmutated[test][0] == "timed out")

    def check_unmutated(self, test):
        """Before a test's first mutant: whether it passes at all, or as far as it comes. Finds its level of optimisation."""
        with self.lock:
            lock = self.locks.setdefault(test, threading.Lock())
        with lock:
            if test not in self.unmutated:
                for self.level[test], limit in [("-O0", SLOW), ("-Og", 300)][:2 if self.optimises else 1]:
                    program = self.build(test, self.plain, self.level[test])
                    start = time.monotonic()
                    self.unmutated[test] = self.run(test, program, limit)
                    self.seconds[test] = time.monotonic() - start
                    program.unlink()
                    if self.unmutated[test][0] != "timed out":
                        break
            verdict, case = self.unmutated[test]
        if verdict != "passes" and not self.only_begun(test):
            raise BuildError(f"{test} {verdict} without any mutation: {case}")
