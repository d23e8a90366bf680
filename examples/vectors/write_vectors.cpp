// Writes vectors.json: cases of speculative decoding, and the exact law of what each must give.
//
//   write_vectors             prints it
//   write_vectors FILE        writes it to a file
// SPDX-License-Identifier: MIT
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "fingerprints.hpp"
#include "json.hpp"
#include "laws.hpp"
#include "sets.hpp"

namespace {

using namespace vectors;

// A case with its law.
struct Solved {
  Case of;
  ExactLaw law;
};
using SolvedCases = std::map<std::string, Solved>;

const std::vector<std::pair<std::string, std::string>> rules{
    {"token",
     "Token verification: Leviathan, Kalman, Matias, arXiv:2211.17192, Algorithm 1; Chen et al., "
     "arXiv:2302.01318, Algorithm 2."},
    {"block", "Block verification: Sun et al., arXiv:2403.10444, Algorithm 2."},
    {"greedy_block",
     "Greedy block verification with its modified target: Sun et al., arXiv:2403.10444, appendix, Algorithms "
     "4 to 6."},
    {"argmax",
     "Argmax verification, temperature 0: a token is kept as long as it is the target's argmax, among equals "
     "the lowest id; Leviathan, Kalman, Matias, arXiv:2211.17192, section 2.2."},
    {"match",
     "Sample and match: the target draws a token at each place; a drafted token is kept as long as it is the "
     "drawn one. The rule of engines that verify with the target's own sampler; no paper."},
    {"keyed",
     "Sample and match with draws that depend on seed and position alone, as this library makes them; "
     "Daliri, Musco, Suresh, arXiv:2408.07978."},
    {"recursive_rejection",
     "Recursive rejection on a tree: Miao et al., arXiv:2305.09781, Algorithm 2; Yang et al., "
     "arXiv:2401.06706."},
    {"traversal", "Traversal verification of a tree: Weng et al., arXiv:2505.12398, Algorithm 2."},
    {"k_seq", "K-SEQ at each node of a tree with the solved rho: Sun et al., arXiv:2310.15141, Algorithm 2."},
    {"trunk_and_spares",
     "Block verification of the path of eldest children; where the added token is a younger child of the "
     "node reached, its own path is judged next, as a new draft. A rule of this library."},
    {"any",
     "Any lossless rule for lines that keeps no memory: tokens are drawn from the draft's rows, the emitted "
     "ones are filled up from the target's rows, and the law is that of the target."},
    {"text", "Any lossless engine: the law of whole texts is that of the target alone."}};

struct BatchOfCases {
  std::string id, shows;
  std::vector<std::string> cases;
};
const std::vector<BatchOfCases> batches{
    {"ragged-token",
     "Drafts of 0, 1, 2 and 3 tokens in one call, all over 4 ids: offsets, and rows of neighbours.",
     {"token/gamma-0", "token/row-of-the-rejected-place", "token/rows-of-three-places", "token/top-k-zeros",
      "token/gamma-0-one-hot", "token/last-id"}},
    {"one-rejects-one-keeps",
     "Neighbours of which one keeps everything and the other nothing.",
     {"token/p-equals-q-flat", "token/disjoint", "token/ruled-out"}},
    {"chosen-beside-drawn",
     "Chosen and drawn tokens in one call, all over 3 ids.",
     {"token/chosen", "token/relaxed", "token/chosen-then-drawn", "token/kept-to-the-end"}},
    {"ragged-block",
     "Block verification of drafts of 0, 1, 2 and 3 tokens in one call.",
     {"block/gamma-0", "block/row-of-the-rejected-place", "block/rows-of-three-places", "block/top-k-zeros",
      "block/disjoint"}},
    {"argmax",
     "Argmax verification of drafts of 1, 2 and 3 tokens in one call, over 3 ids.",
     {"argmax/first-of-equals", "argmax/all-kept", "argmax/chosen", "argmax/stops-at-the-second"}},
    {"match",
     "Sample and match of drafts of 0, 2 and 3 tokens in one call, over 4 ids.",
     {"match/gamma-0", "match/top-k-zeros", "match/rows-of-three-places"}},
    {"vocabularies",
     "Requests of different vocabularies in one call, for engines that allow it.",
     {"token/by-hand", "token/65-ids", "token/coin-and-draw"}}};

SolvedCases solved(const std::vector<Case>& cases) {
  SolvedCases out;
  for (const Case& of : cases)
    if (!out.emplace(of.id, Solved{of, exact_law_of(of)}).second)
      throw std::runtime_error(of.id + ": there are two cases of this id");
  return out;
}

const Solved& find(const SolvedCases& cases, const std::string& id, const std::string& whose) {
  const auto found = cases.find(id);
  if (found == cases.end()) throw std::runtime_error(whose + " names a case that there is not: " + id);
  return found->second;
}

std::string json_law(const Law& law) {
  std::string out;
  for (const auto& [outcome, probability] : law)
    if (const std::string digits = json_probability(probability); digits != "0")
      out += (out.empty() ? "[" : ", [") + json_outcome(outcome, false) + ", " + digits + "]";
  return "[" + out + "]";
}

std::string json_mistake(const Mistake& mistake, const SolvedCases& cases) {
  std::string laws;
  for (const std::string& id : mistake.cases) {
    const Solved& right = find(cases, id, mistake.name);
    const Law law = mistake.law(right.of);
    if (distance(law, right.law) < 1e-8) continue;
    laws += (laws.empty() ? "\n    " : ",\n    ") + json(id) + ": " + json_law(law);
  }
  if (laws.empty()) throw std::runtime_error(mistake.name + ": no case tells it from the right rule");
  return "{\"name\": " + json(mistake.name) + ", \"is\": " + json(mistake.is) + ", \"laws\": {" + laws + "}}";
}

std::string json_batch(const BatchOfCases& batch, const SolvedCases& cases) {
  std::set<std::string> names;
  for (const std::string& id : batch.cases) names.insert(find(cases, id, batch.id).of.rule());
  if (names.size() != 1) throw std::runtime_error(batch.id + ": the cases of a batch have one rule");
  return "{\"id\": " + json(batch.id) + ", \"shows\": " + json(batch.shows) +
         ", \"cases\": " + json_list(batch.cases, [](const std::string& id) { return json(id); }) + "}";
}

std::string lines(const auto& entries, const auto& print) {
  std::string out;
  for (const auto& entry : entries) out += (out.empty() ? "\n  " : ",\n  ") + print(entry);
  return out;
}

std::string vectors_json() {
  const std::vector<Case> cases = all_cases();
  const SolvedCases known = solved(cases);
  return "{\"format\": \"specdec-vectors\", \"version\": 1,\n\"rules\": {" +
         lines(rules, [](const auto& rule) { return json(rule.first) + ": " + json(rule.second); }) +
         "},\n\"cases\": [" +
         lines(cases, [&](const Case& of) { return json_case(of, known.at(of.id).law); }) +
         "],\n\"batches\": [" +
         lines(batches, [&](const BatchOfCases& batch) { return json_batch(batch, known); }) +
         "],\n\"mistakes\": [" +
         lines(known_mistakes(), [&](const Mistake& mistake) { return json_mistake(mistake, known); }) +
         "]}\n";
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string text = vectors_json();
  if (argc < 2) {
    std::cout << text;
    return 0;
  }
  std::ofstream file(argv[1], std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error(std::string(argv[1]) + " cannot be written");
} catch (const std::exception& error) {
  std::cerr << "write_vectors: " << error.what() << "\n";
  return 2;
}
