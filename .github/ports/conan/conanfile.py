# SPDX-License-Identifier: MIT
import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, get
from conan.tools.layout import basic_layout
from conan.tools.scm import Version

required_conan_version = ">=2.0"


class SpecdecConan(ConanFile):
    name = "specdec"
    description = "Lossless draft verifiers for speculative decoding, and the loop around them, on Eigen"
    license = "MIT"
    url = "https://github.com/conan-io/conan-center-index"
    homepage = "https://github.com/@REPOSITORY@"
    topics = ("speculative-decoding", "language-models", "sampling", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True

    def layout(self):
        basic_layout(self, src_folder="src")

    def requirements(self):
        self.requires("eigen/[>=3.4.0 <6]", transitive_headers=True)

    def package_id(self):
        self.info.clear()

    def validate(self):
        check_min_cppstd(self, 20)
        least = {"gcc": "12", "clang": "15", "apple-clang": "15", "msvc": "193"}.get(str(self.settings.compiler))
        if least and Version(self.settings.compiler.version) < least:
            raise ConanInvalidConfiguration(f"specdec needs {self.settings.compiler} {least} or newer")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        for pattern in ("*.hpp", "*.h"):
            copy(self, pattern, os.path.join(self.source_folder, "include"), os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "specdec")
        self.cpp_info.set_property("cmake_target_name", "specdec::specdec")
        self.cpp_info.set_property("pkg_config_name", "specdec")
