// Stands in for libFuzzer: calls a target with the inputs of a corpus, a line each in hexadecimal.
// SPDX-License-Identifier: MIT
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// Whether `line` has nothing but pairs of hexadecimal digits.
bool read(const std::string& line, std::vector<std::uint8_t>& bytes) {
  bytes.assign(line.size() / 2, 0);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* const pair = line.data() + 2 * i;
    const auto [end, error] = std::from_chars(pair, pair + 2, bytes[i], 16);
    if (error != std::errc{} || end != pair + 2) return false;
  }
  return line.size() % 2 == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " corpus.hex\n";
    return 2;
  }
  std::ifstream corpus(argv[1]);
  std::vector<std::uint8_t> bytes;
  int inputs = 0, number = 0;
  for (std::string line; std::getline(corpus, line);) {
    ++number;
    if (line.starts_with('#')) continue;
    // If the program ends here, the last number says where.
    std::cout << "line " << number << std::endl;
    if (!read(line, bytes)) {
      std::cerr << argv[1] << ":" << number << ": not in hexadecimal\n";
      return 1;
    }
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++inputs;
  }
  if (inputs == 0) std::cerr << argv[1] << " holds no inputs\n";
  return inputs == 0 ? 1 : 0;
}
