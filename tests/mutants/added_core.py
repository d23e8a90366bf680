mutant = promise("a race has its closed form's law, and ends")
mutant("race-of-many-rounds", "core/race.hpp", "tests/core/race", "max_race_rounds = 64;", "max_race_rounds = 100000;")

mutant = promise("a draw is the inverse distribution function of its row; never a token of probability 0")
mutant("draw-from-nearly-two", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "static constexpr double most = 1.01;", "static constexpr double most = 1.9;")

mutant = promise("bad input is named, never guessed around")
mutant("validate-loosely", "core/validate.hpp", "tests/core/validate", "double tolerance = 1e-3)", "double tolerance = 4e-2)")
mutant("named-twice", "core/named_row.hpp", "tests/core/named_row", 'starts_with("specdec: ")) throw;', 'starts_with("specdec: ")) (void)0;')
mutant("named-weight-unchecked", "core/named_row.hpp", "tests/core/named_row",
       "return checked(support(k), row_->weight(k));", "return row_->weight(k);")
mutant("named-draw-unnamed", "core/named_row.hpp", "tests/core/named_row",
       "return row.named([&] { return draw(u); });", "return draw(u);")

mutant = promise("stored rows outlive what they were made of, unless they are stable")
mutant("stored-rows-never-cleared", "core/stored_rows.hpp", "tests/core/stored_rows",
       "void clear() { rows_.clear(); }", "void clear() {}")
mutant("stored-rows-in-one-memory", "core/stored_rows.hpp", "tests/core/stored_rows",
       "copies_[rows_.size()].assign(row)", "copies_[0].assign(row)")

mutant = promise("a processed model copies every row that a hook may change")
mutant("processed-rows-do-not-grow", "sample/processed_model.hpp", "tests/sample/processed_model",
       "if (output_.rows() < rows || output_.cols() != vocab_size())", "if (output_.cols() != vocab_size())")

mutant = promise("min-p keeps the tokens with p(x) >= min_p · max p, no others")
mutant("min-p-rounded-down", "sample/min_p.hpp", "tests/sample/min_p",
       "if (static_cast<double>(cut) < least) cut", "if (static_cast<double>(cut) < least - 1e9) cut")
mutant("min-p-at-temperature-one", "sample/min_p.hpp", "tests/sample/min_p",
       "row.temperature() * std::log(p_)", "std::log(p_)")

mutant = promise("the cut of a row is the largest above which tokens weigh enough")
mutant("threshold-target-rounded-down", "sample/threshold.hpp", "tests/sample/threshold tests/sample/top_k tests/sample/top_p",
       "std::round((target - above) / unit)", "std::floor((target - above) / unit - 1)")
mutant("threshold-above-forgotten", "sample/threshold.hpp", "tests/sample/threshold tests/sample/top_k",
       "if (select(target, above)) return true;", "if (select(target, 0)) return true;")
mutant("threshold-infinity-is-a-logit", "sample/threshold.hpp", "tests/sample/threshold",
       "bad |= static_cast<unsigned>(!(l < infinity));", "bad |= static_cast<unsigned>(l != l);")
mutant("threshold-copy-without-end", "sample/threshold.hpp", "tests/sample/threshold tests/sample/top_k",
       "copy.setConstant(-infinity);", "")
mutant("threshold-overflow-unseen", "sample/threshold.hpp", "tests/sample/threshold tests/sample/top_k",
       "    if (overflow_) {\n      high_ = bracket.high;\n      return false;\n    }\n    if (select", "    if (select")
mutant("threshold-mass-of-another-unit", "sample/threshold.hpp", "tests/sample/top_k",
       "near_.at_least(low_)), -TokenMass<Scalar>::bits)", "near_.at_least(low_)), 1 - TokenMass<Scalar>::bits)")

mutant = promise("numbers with weights are counted and cut exactly")
mutant("weighed-above", "sample/weighed.hpp", "tests/sample/weighed", "static_cast<Weight>(keys[i] >= cut)", "static_cast<Weight>(keys[i] > cut)")
mutant("weighed-low-halves", "sample/weighed.hpp", "tests/sample/weighed",
       "return (std::uint64_t{high} << half) + low;", "return std::uint64_t{high} << half;")
mutant("weighed-short-of-target", "sample/weighed.hpp", "tests/sample/weighed",
       "if (at_least(middle) >= target) low = middle;", "if (at_least(middle) > target) low = middle;")
mutant("weighed-rest-of-all", "sample/weighed.hpp", "tests/sample/weighed",
       "return target > above ? target - above : 0;", "return target;")
mutant("weighed-rank-one-off", "sample/weighed.hpp", "tests/sample/weighed", ">= rank) low = middle;", "> rank) low = middle;")
mutant("weighed-behind-the-end", "sample/weighed.hpp", "tests/sample/weighed", "!= 0, start + i < size);", "!= 0, true);")

mutant = promise("flags pick what is flagged, each number once")
mutant("flags-of-one-row", "sample/flags.hpp", "tests/sample/flags",
       "return bit % rows * row_size + bit / rows;", "return bit / rows;")
mutant("flags-transposed", "sample/flags.hpp", "tests/sample/flags",
       "return bit % rows * row_size + bit / rows;", "return bit % row_size * rows + bit / row_size;")
mutant("flags-few-at-a-time", "sample/flags.hpp", "tests/sample/flags",
       "for (std::size_t k = first + excess; k < last; ++k) put(k, byte + take_first(bits));", "")
mutant("flags-either", "sample/flags.hpp", "tests/sample/flags",
       "static_cast<unsigned>(a) & static_cast<unsigned>(b)", "static_cast<unsigned>(a) | static_cast<unsigned>(b)")

mutant = promise("keys order floating-point numbers, and come back")
mutant("keys-of-bits", "sample/ordered_key.hpp", "tests/sample/ordered_key",
       "return bits >= 0 ? bits : std::numeric_limits<OrderedKey<F>>::min() - bits;", "return bits;")
mutant("keys-complemented", "sample/ordered_key.hpp", "tests/sample/ordered_key",
       "return bits >= 0 ? bits : std::numeric_limits<OrderedKey<F>>::min() - bits;",
       "return bits >= 0 ? bits : std::numeric_limits<OrderedKey<F>>::min() - bits - 1;")

mutant = promise("tokens weigh one, or their exponentials")
mutant("weight-of-no-token", "sample/token_weight.hpp", "tests/sample/token_weight",
       "n += logits[i] >= std::numeric_limits<Scalar>::lowest() ? 1 : 0;", "n += 1 + 0 * static_cast<int>(logits[i] > 0);")
mutant("weight-above-or-equal", "sample/token_weight.hpp", "tests/sample/token_weight",
       "w[i] *= static_cast<Scalar>(logits[i] > number);", "w[i] *= static_cast<Scalar>(logits[i] >= number);")
mutant("weight-unit-without-temperature", "sample/token_weight.hpp", "tests/sample/token_weight",
       "(static_cast<double>(top) - static_cast<double>(shift)) *\n                               static_cast<double>(inverse_temperature)),",
       "(static_cast<double>(top) - static_cast<double>(shift)) * 1.0),")

mutant = promise("the trie of contexts counts what follows what, exactly")
mutant("counts-too-short-contexts", "model/ngram_counts.hpp", "tests/model/ngram_counts",
       "std::erase(positions_, length - 1);", "std::erase(positions_, length);")
mutant("counts-of-other-parents", "model/ngram_counts.hpp", "tests/model/ngram_counts",
       "nodes().back().parent == parent && nodes().back().token == token", "nodes().back().token == token")
