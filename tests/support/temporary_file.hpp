// Files for readers that take a path.
// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace support {

/// A file that is deleted at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    static int count = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("specdec_" + std::to_string(std::random_device{}()) + "_" + std::to_string(count++)))
                .string();
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Appends the bytes of a number.
template <class Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace support
