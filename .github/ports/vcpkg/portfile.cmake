# SPDX-License-Identifier: MIT
vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS FEATURES c SPECDEC_BUILD_C)
if(NOT "c" IN_LIST FEATURES)
    set(VCPKG_BUILD_TYPE release)  # header-only
endif()

vcpkg_from_github(
    OUT_SOURCE_PATH SOURCE_PATH
    REPO "@REPOSITORY@"
    REF "v${VERSION}"
    SHA512 @SHA512@
    HEAD_REF main
)

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        ${FEATURE_OPTIONS}
        -DSPECDEC_BUILD_TESTS=OFF
        -DSPECDEC_BUILD_EXAMPLES=OFF
        -DSPECDEC_BUILD_BENCH=OFF
)
vcpkg_cmake_install()
if("c" IN_LIST FEATURES)
    vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/specdec)
    file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
else()
    vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/specdec)
endif()
vcpkg_fixup_pkgconfig()

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
