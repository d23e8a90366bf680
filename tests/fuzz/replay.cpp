// Runs kept inputs: replay <target> <file>, with one input a line, in hexadecimal. A line that begins with # says what
// the inputs after it are kept for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/target.hpp"

namespace {

std::vector<std::uint8_t> bytes_of(const std::string& line) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < line.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(line.substr(i, 2), nullptr, 16)));
  return bytes;
}

void run(std::string_view target, const std::vector<std::uint8_t>& input) {
  if (target == "verify") fuzz::verify(input);
  else if (target == "tree") fuzz::tree(input);
  else if (target == "sample") fuzz::sample(input);
  else if (target == "loop") fuzz::loop(input);
  else if (target == "batch") fuzz::batch(input);
  else if (target == "read") fuzz::read(input);
  else std::exit((std::cerr << "no target " << target << "\n", 2));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  std::ifstream file(arguments[2]);
  int inputs = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    ++inputs;
    std::cout << line << std::endl;  // the last printed input is the one that fails
    run(arguments[1], bytes_of(line));
  }
  std::cout << inputs << " inputs\n";
  return inputs > 0 ? 0 : 2;  // without a file nothing is tested
}
