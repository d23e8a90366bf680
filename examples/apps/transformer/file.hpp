// Reads a file by the functions of C: the C++ library of WebAssembly has no std::ifstream.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace transformer {

/// A file that is read from front to back. It is false as a condition if the file cannot be read.
class File {
 public:
  explicit File(const std::string& path) : file_(std::fopen(path.c_str(), "rb")) {
    if (!file_) return;
    // A directory can be opened, but its first byte cannot be read.
    const int first = std::getc(file_.get());
    if (std::ferror(file_.get()) == 0 && seek(0, SEEK_END)) size_ = tell();
    readable_ = size_ >= 0 && seek(0, SEEK_SET) && (size_ == 0 || first != EOF);
  }

  explicit operator bool() const { return readable_; }
  std::int64_t size() const { return size_; }

  /// Reads the next bytes. Returns whether there were so many.
  bool read(char* bytes, std::size_t count) { return std::fread(bytes, 1, count, file_.get()) == count; }

 private:
  // A long has 32 bits on many machines, too few for the size of a large model.
#ifdef _WIN32
  bool seek(int offset, int from) { return _fseeki64(file_.get(), offset, from) == 0; }
  std::int64_t tell() { return _ftelli64(file_.get()); }
#else
  bool seek(int offset, int from) { return fseeko(file_.get(), offset, from) == 0; }
  std::int64_t tell() { return ftello(file_.get()); }
#endif

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t size_ = -1;
  bool readable_ = false;
};

/// Reads a whole file into `bytes`. Returns whether that was possible.
inline bool read_file(const std::string& path, std::vector<char>& bytes) {
  File file(path);
  if (!file) return false;
  bytes.resize(static_cast<std::size_t>(file.size()));
  return file.read(bytes.data(), bytes.size());
}

}  // namespace transformer
