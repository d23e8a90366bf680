// Drafts that fail for a while: a monitor tells when acceptance has fallen, and a draft length rests then. Neither has a clock.
// SPDX-License-Identifier: MIT
#include <iomanip>
#include <iostream>
#include <random>
#include <specdec/more/lengths.hpp>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using specdec::Index, specdec::Token;

constexpr std::string_view known =
    "This is the house that Jack built. This is the malt that lay in the house that Jack built. "
    "This is the rat that ate the malt that lay in the house that Jack built. ";
constexpr std::string_view unknown =  // to the draft model
    "YESTERDAY, UPON A STAIR, I MET A MAN WHO WAS NOT THERE. HE WAS NOT THERE AGAIN TODAY. ";

// The tokens of this example are letters.
std::vector<Token> letters(std::string_view text) { return {text.begin(), text.end()}; }

specdec::NgramModel trained_on(std::string_view text, Index order) {
  return specdec::NgramModel::train(letters(text), {.order = order, .vocab_size = 128});
}

// A request is a sentence that begins with the prompt.
struct Requests {
  std::string_view prompt;
  int count;
};
constexpr Requests day[] = {
    {"This is", 40}, {"YESTERDAY", 40}, {"This is", 40}, {"HE WAS", 40}, {"This is", 40}};

// Four tokens a step, as ever, and a line when acceptance has fallen.
struct OnlyWatched : specdec::FixedLength {
  specdec::AcceptanceMonitor monitor{0.2};
  bool told = false;

  void observe(const specdec::StepRecord& step) {
    monitor.observe(step);
    if (told || !monitor.fallen()) return;
    std::cout << "  less than a fifth of the drafted tokens is accepted\n";
    told = true;
  }
};

// Writes all texts, one after another: the decoder keeps its draft length, and what the length has learnt.
void write(std::string_view name, auto length) {
  specdec::SpecDec decoder{trained_on(std::string(known) + std::string(unknown), 8),
                           specdec::ModelDrafter{trained_on(known, 4)}, specdec::BlockVerifier{},
                           std::move(length)};
  std::mt19937_64 rng{1};
  std::cout << name << "\n";
  for (const auto& [prompt, count] : day) {
    specdec::Stats stats;
    for (int text = 0; text < count; ++text)
      stats +=
          decoder.generate(letters(prompt), {.max_new_tokens = 300, .gamma = 4, .stop_tokens = {'.'}}, rng)
              .stats;
    std::cout << "  " << count << " x " << std::left << std::setw(11) << prompt << std::right << std::setw(6)
              << stats.emitted << std::setw(7) << stats.target_calls << std::setw(9) << stats.drafted
              << std::setw(9) << stats.accepted << "\n";
  }
}

int main() {
  std::cout << "  requests         tokens  calls  drafted accepted\n";
  write("four drafted tokens a step", OnlyWatched{});
  // Where less than a fifth is accepted, drafts do not pay.
  write("and none where they fail", specdec::WatchedLength{specdec::AcceptanceMonitor{0.2}});
}
