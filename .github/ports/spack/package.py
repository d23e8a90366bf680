# SPDX-License-Identifier: MIT
from spack.package import *


class Specdec(CMakePackage):
    """Lossless draft verifiers for speculative decoding, and the loop around them. Header-only C++20, on Eigen."""

    homepage = "https://github.com/@REPOSITORY@"
    url = "https://github.com/@REPOSITORY@/archive/refs/tags/v@VERSION@.tar.gz"
    git = "https://github.com/@REPOSITORY@.git"

    license("MIT")

    version("main", branch="main")
    version("@VERSION@", sha256="@SHA256@")

    variant("c", default=False, description="Build the library of the C interface, libspecdec_c")
    variant("shared", default=True, description="Build it as a shared library", when="+c")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("eigen@3.4:")

    conflicts("%gcc@:11", msg="specdec needs GCC 12 or newer")
    conflicts("%clang@:14", msg="specdec needs Clang 15 or newer")
    conflicts("%apple-clang@:14", msg="specdec needs Xcode 15 or newer")

    def cmake_args(self):
        return [
            self.define("SPECDEC_BUILD_TESTS", False),
            self.define("SPECDEC_BUILD_EXAMPLES", False),
            self.define("SPECDEC_BUILD_BENCH", False),
            self.define_from_variant("SPECDEC_BUILD_C", "c"),
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
        ]
