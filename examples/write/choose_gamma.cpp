// Says how many tokens to draft, and whether to draft at all, given an acceptance rate and the costs of calls.
//
//   choose_gamma --alpha 0.8 --target-cost 14.1 --draft-cost 1.8
//   choose_gamma --alpha 0.65 --cost-ratio 0.07 --call-cost 2:1.14 3:1.40 4:1.51 5:1.91 6:2.28
// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iomanip>
#include <iostream>
#include <optional>
#include <set>
#include <specdec/more/analysis/speed_up.hpp>
#include <specdec/more/lengths/cost_curve.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using specdec::Index;

// ---- What can be set --------------------------------------------------------------------------------

struct Settings {
  double alpha = 0.8;
  double cost_ratio = 0.05;
  std::optional<double> target_cost, draft_cost;
  std::vector<std::string> call_costs;
  Index most = 12;
};

void add_options(CLI::App& app, Settings& settings) {
  const CLI::Range positive(1e-9, 1e9), not_negative(0.0, 1e9);
  app.option_defaults()->always_capture_default();
  app.add_option("--alpha", settings.alpha, "Acceptance rate: the chance that a drafted token is accepted")
      ->check(CLI::Range(0.0, 1.0));
  CLI::Option* ratio = app.add_option("--cost-ratio", settings.cost_ratio,
                                      "Cost of a drafted token, in units of a target call over one token")
                           ->check(not_negative);
  CLI::Option* target = app.add_option("--target-cost", settings.target_cost,
                                       "Cost of a target call over one token, in any unit")
                            ->check(positive)
                            ->excludes(ratio);
  CLI::Option* draft =
      app.add_option("--draft-cost", settings.draft_cost, "Cost of a drafted token, in the same unit")
          ->check(not_negative)
          ->excludes(ratio);
  target->needs(draft);
  draft->needs(target);
  app.add_option(
      "--call-cost", settings.call_costs,
      "Costs of target calls over several tokens, as TOKENS:COST, in the unit of --target-cost; with "
      "--cost-ratio, in target calls over one token. Costs in between and beyond lie on straight lines. If "
      "none is given, every call costs as much as one over one token");
  app.add_option("--most", settings.most, "The largest gamma to consider")->check(CLI::Range(1, 1000));
}

// ---- What it comes to -------------------------------------------------------------------------------

// Costs in target calls over one token.
struct Costs {
  double draft = 0;
  specdec::CostCurve call{1.0};  // of a call, by its number of tokens
  std::set<Index> known;         // the token counts with a given cost
};

std::string plain(double number) {
  std::ostringstream out;
  out << number;
  return out.str();
}

void add_call_cost(Costs& costs, const std::string& text, double unit) {
  std::istringstream in(text);
  Index tokens = 0;
  double cost = 0;
  char colon = 0;
  if (!(in >> tokens >> colon >> cost && colon == ':' && in.peek() == EOF && tokens > 1 && cost > 0))
    throw std::invalid_argument(
        "--call-cost: " + text +
        " is not of the form TOKENS:COST, with more than one token and a cost above 0");
  if (!costs.known.insert(tokens).second)
    throw std::invalid_argument("--call-cost: more than one cost of a call over " + std::to_string(tokens) +
                                " tokens");
  // No formula holds for costs of two units: such a gain may lie above the oracle's.
  if (cost < unit || cost > unit * static_cast<double>(tokens))
    throw std::invalid_argument("--call-cost: " + text + " is outside " + plain(unit) + ".." +
                                plain(unit * static_cast<double>(tokens)) + ", what one and what " +
                                std::to_string(tokens) +
                                " calls over one token cost: is it in the unit of the other costs?");
  costs.call.add(tokens, cost / unit);
}

Costs costs_of(const Settings& settings) {
  const double unit = settings.target_cost.value_or(1.0);
  Costs costs;
  costs.draft = settings.draft_cost ? *settings.draft_cost / unit : settings.cost_ratio;
  costs.call.add(1, 1.0);
  for (const std::string& text : settings.call_costs) add_call_cost(costs, text, unit);
  return costs;
}

double speed_up(const Settings& settings, const Costs& costs, Index gamma) {
  return specdec::speed_up(specdec::expected_tokens(settings.alpha, gamma), gamma,
                           {.call = costs.call(gamma + 1), .draft = costs.draft});
}

Index best_gamma(const Settings& settings, const Costs& costs) {
  if (costs.known.empty()) return specdec::best_gamma(settings.alpha, costs.draft, settings.most);
  Index best = 0;
  for (Index gamma = 1; gamma <= settings.most; ++gamma)
    if (speed_up(settings, costs, gamma) > speed_up(settings, costs, best)) best = gamma;
  return best;
}

void print_table(const Settings& settings, const Costs& costs, Index best) {
  std::cout << "gamma  tokens per call  cost of a step  speed-up\n" << std::fixed;
  for (Index gamma = 0; gamma <= settings.most; ++gamma)
    std::cout << std::setw(5) << gamma << std::setprecision(3) << std::setw(17)
              << specdec::expected_tokens(settings.alpha, gamma) << std::setw(16)
              << costs.call(gamma + 1) + static_cast<double>(gamma) * costs.draft << std::setprecision(2)
              << std::setw(10) << speed_up(settings, costs, gamma) << (gamma == best ? "  <- best\n" : "\n");
  std::cout << std::defaultfloat << std::setprecision(4);
}

void print_advice(const Settings& settings, const Costs& costs, Index best) {
  const double alpha = settings.alpha;
  if (!specdec::drafting_helps(alpha, costs.draft)) {
    std::cout << "Do not draft: alpha = " << alpha << " <= cost ratio = " << costs.draft
              << ", so no gamma pays (Leviathan et al., Corollary 3.9).\n";
  } else if (best == 0) {
    std::cout << "Do not draft: no gamma up to " << settings.most
              << " makes up for what calls over several tokens cost.\n";
  } else {
    std::cout << "Draft " << best << (best == 1 ? " token" : " tokens") << ": "
              << speed_up(settings, costs, best) << " times as fast as the target alone"
              << (speed_up(settings, costs, best + 1) > speed_up(settings, costs, best)
                      ? ", and more with more: see --most.\n"
                      : ".\n")
              << "An oracle that drafts just what will be accepted is at most "
              << specdec::oracle_improvement(alpha, costs.draft) << " times as fast.\n";
  }
}

int fail(std::string message) {
  std::ranges::replace(message, '\n', ' ');
  std::cerr << "choose_gamma: " << message << '\n';
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Says how many tokens to draft, if any, under token verification.", "choose_gamma"};
  app.footer("Example: choose_gamma --alpha 0.8 --target-cost 14.1 --draft-cost 1.8");
  add_options(app, settings);
  try {
    app.parse(argc, argv);
    const Costs costs = costs_of(settings);
    const Index best = best_gamma(settings, costs);
    print_table(settings, costs, best);
    std::cout << '\n';
    print_advice(settings, costs, best);
    return std::cout.flush() ? 0 : 1;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
