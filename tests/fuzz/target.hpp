// The fuzz targets, one function a file.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

namespace fuzz {

void verify(std::span<const std::uint8_t> data);
void tree(std::span<const std::uint8_t> data);
void sample(std::span<const std::uint8_t> data);
void loop(std::span<const std::uint8_t> data);
void batch(std::span<const std::uint8_t> data);
void read(std::span<const std::uint8_t> data);

}  // namespace fuzz
