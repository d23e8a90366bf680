// The second translation unit.
#include "counter.hpp"

specdec::Result generate_elsewhere(std::span<const specdec::Token> prompt, const specdec::Options& options,
                                   std::mt19937_64& rng) {
  specdec::SpecDec decoder{Counter(2.0), specdec::ModelDrafter{Counter(1.0)}, specdec::BlockVerifier{}};
  return decoder.generate(prompt, options, rng);
}
