// REST: drafts from a novel. Its datastore is built once, as a file, and mapped into memory.
// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <random>
#include <span>
#include <specdec/more/drafters/datastore_drafter.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace {

using specdec::Index, specdec::Token;
using Tokens = std::vector<Token>;

// The bytes of a file, of which the system loads the pages that are read.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) : size_(std::filesystem::file_size(path)) {
    const int file = open(path.c_str(), O_RDONLY);
    if (file < 0) throw std::runtime_error("cannot open " + path.string());
    data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (data_ == MAP_FAILED) throw std::runtime_error("cannot map " + path.string());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() { munmap(data_, size_); }

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  std::size_t size_;
  void* data_;
};

const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";

}  // namespace

int main() {
  specdec::ProcessedModel target{transformer::Transformer<float>(weights + "target.bin"),
                                 specdec::Temperature{0.8}};
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", target.vocab_size());

  // Once: the file.
  const auto path = std::filesystem::temp_directory_path() / ("datastore." + std::to_string(getpid()));
  std::ifstream novel(SPECDEC_EXAMPLES "/data/moby_dick.txt");
  std::ofstream file(path, std::ios::binary);
  specdec::Datastore::write(file, tokenizer.encode(std::string(std::istreambuf_iterator<char>(novel), {})));
  file.close();

  // At each start.
  const MappedFile mapped(path);
  const specdec::Datastore store{mapped.bytes()};
  std::cout << store.size() << " tokens, " << mapped.bytes().size() << " bytes\n";

  std::vector<Tokens> prompts;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; prompts.size() < 8 && std::getline(lines, line);)
    prompts.push_back(tokenizer.encode(line));
  const auto write = [&](const char* name, auto drafter, auto rule, Index gamma) {
    specdec::SpecDec decoder{target, std::move(drafter), rule};
    std::mt19937_64 rng{1};
    specdec::Stats stats;
    for (const Tokens& prompt : prompts)
      stats += decoder.generate(prompt, {.max_new_tokens = 50, .gamma = gamma}, rng).stats;
    std::cout << std::left << std::setw(34) << name << std::fixed << std::setprecision(2)
              << stats.block_efficiency() << " tokens per target call\n";
  };
  write("suffix automaton of the text", specdec::SuffixDrafter{}, specdec::BlockVerifier{}, 4);
  write("datastore, lines of 4", specdec::DatastoreDrafter{store}, specdec::BlockVerifier{}, 4);
  write("datastore, trees of 16", specdec::DatastoreDrafter{store, {.min_match = 1}, specdec::Branching{}},
        specdec::TrunkAndSpares<specdec::SampleMatchVerifier>{}, 16);
  std::filesystem::remove(path);
}
