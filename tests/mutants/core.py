"""Mutants of distributions, chance and everything that reads rows."""

from mutants import promise

mutant = promise("uniform01 is a multiple of 2^-53 in [0, 1), from 64 fair bits of any generator")
mutant("uniform-fewer-bits", "core/random.hpp", "tests/core/random", ">> 11) * 0x1p-53", ">> 22) * 0x1p-42")
mutant("uniform-reaches-one", "core/random.hpp", "tests/core/random",
       "(random_bits64(generator) >> 11) * 0x1p-53", "(random_bits64(generator)) * 0x1p-64")
mutant("bits-low-half-first", "core/random.hpp", "tests/core/random",
       "bits = (bits << width) | fresh;", "bits |= fresh << filled;")
mutant("bits-of-any-range", "core/random.hpp", "tests/core/random",
       "while ((fresh >> width) != 0) fresh = word();", "")
mutant("bits-minimum-forgotten", "core/random.hpp", "tests/core/random tests/law_concepts",
       "static_cast<std::uint64_t>(generator() - Generator::min())", "static_cast<std::uint64_t>(generator())")

mutant = promise("a coin falls with its probability")
mutant("coin-inverted", "core/chance.hpp", "tests/core/chance", "uniform01(*generator_) < p", "uniform01(*generator_) > p")
mutant("coin-closed", "core/chance.hpp", "tests/core/chance tests/verify/token tests/verify/block",
       "uniform01(*generator_) < p", "uniform01(*generator_) <= p")
mutant("coin-nearly-certain", "core/chance.hpp", "tests/core/chance",
       "if (h >= 1) return true;", "if (h > 0.99) return true;")
mutant("coin-nan-is-no", "core/chance.hpp", "tests/core/chance", "if (h <= 0) return false;", "if (!(h > 0)) return false;")

mutant = promise("a draw is the inverse distribution function of its row; never a token of probability 0")
mutant("draw-block-search", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "std::upper_bound(", "std::lower_bound(")
mutant("draw-stops-reading-late", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "total() <= u) extend();", "total() < u) extend();")
mutant("draw-token-search", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "x < end && sum <= u; ++x)", "x < end && sum < u; ++x)")
mutant("draw-zero-mass", "core/prefix_sampler.hpp", "tests/core/prefix_sampler", "if (!(mass > 0)) continue;", "")
mutant("draw-short-row", "core/prefix_sampler.hpp", "tests/core/prefix_sampler", "if (u >= total()) u = wrap(u);", "")
mutant("draw-short-row-head", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "const double v = (u - total()) / (1 - total()) * total();", "const double v = 0;")
mutant("draw-offset-forgotten", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "search(block, u - (block == 0 ? 0.0 : sums_[static_cast<std::size_t>(block - 1)]))", "search(block, u)")
mutant("draw-without-mass", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       'if (!(total() > 0)) throw InvalidDistribution("the probabilities sum to 0");', "")
mutant("draw-from-too-much", "core/prefix_sampler.hpp", "tests/core/prefix_sampler", "if (total() + sum > most)", "if (false)")
mutant("draw-nan-block", "core/prefix_sampler.hpp", "tests/core/prefix_sampler tests/verify/drafted_block",
       "if (!(sum >= 0) || !std::isfinite(sum))", "if (sum < 0)")
mutant("draw-from-nearly-two", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "static constexpr double most = 1.01;", "static constexpr double most = 1.9;")

mutant = promise("a view reads any layout; argmax takes the lowest id and refuses NaN")
mutant("view-strides-swapped", "core/numbers.hpp", "tests/core/dense",
       "down_(M::IsRowMajor ? matrix.outerStride() : matrix.innerStride())", "down_(M::IsRowMajor ? matrix.innerStride() : matrix.outerStride())")
mutant("view-stride-forgotten", "core/numbers.hpp", "tests/core/dense",
       "data_ + start * step(), count", "data_ + start, count")
mutant("one-hot-everywhere", "core/one_hot.hpp", "tests/core/one_hot tests/law_lossless",
       "return x == token_ ? 1.0 : 0.0;", "return 1.0;")

mutant = promise("a residual is (a·p − b·q)+, and NaN stays in sight")
mutant("residual-absolute", "core/residual.hpp", "tests/core/residual",
       "0.5 * (difference + difference.abs()).sum()", "difference.abs().sum()")
mutant("residual-absolute-by-token", "core/residual.hpp", "tests/core/residual",
       "return d < 0 ? 0 : d;", "return std::abs(d);")
mutant("residual-unclipped", "core/residual.hpp", "tests/core/residual tests/core/race",
       "return std::max(difference, 0.0);", "return difference;")
mutant("residual-not-normalised", "core/residual.hpp", "tests/core/residual tests/core/race",
       "return residual(a_, p_, b_, q_, x) / mass_;", "return residual(a_, p_, b_, q_, x);")
mutant("residual-nan-is-nothing", "core/residual.hpp", "tests/core/residual tests/verify/drafted_block",
       "if (!std::isfinite(difference))", "if (false)")

mutant = promise("a race has its closed form's law, and ends")
mutant("race-weight-forgotten", "core/race.hpp", "tests/core/race",
       "residual(w, p, 1.0, q, y) / weight", "residual(1.0, p, 1.0, q, y) / p.probability(y)")
mutant("race-weight-in-one-place", "core/race.hpp", "tests/core/race", "std::max(w * p.prob", "std::max(p.prob")
mutant("race-never-lost", "core/race.hpp", "tests/core/race",
       "if (!chance.coin(w)) return std::nullopt;", "if (w <= 0) return std::nullopt;")
mutant("race-lost-at-the-end", "core/race.hpp", "tests/core/race",
       "return detail::settle_race(chance, w, p, q);", "return std::nullopt;")
mutant("race-without-end", "core/race.hpp", "tests/core/race", "round < rounds;", ";", endless=True)
mutant("settle-normaliser", "core/race.hpp", "tests/core/race", "rest.mass() / (rest.mass() + lost)", "rest.mass()")
mutant("settle-weight-forgotten", "core/race.hpp", "tests/core/race",
       "const ResidualRow<P, Q> rest(w, p, 1.0, q);", "const ResidualRow<P, Q> rest(1.0, p, 1.0, q);")
mutant("settle-always-won", "core/race.hpp", "tests/core/race",
       "const double lost = std::max(1 - w, 0.0);", "const double lost = 0;")
mutant("settle-no-mass", "core/race.hpp", "tests/core/race", "if (lost > 0) return std::nullopt;", "")
mutant("race-of-many-rounds", "core/race.hpp", "tests/core/race", "max_race_rounds = 64;", "max_race_rounds = 100000;")

mutant = promise("rows of every kind mean what they hold")
mutant("pointers-first-row-only", "core/numbers.hpp", "tests/core/numbers",
       "pointers_[static_cast<std::size_t>(i)], cols_", "pointers_[0] + 0 * i, cols_")
mutant("pointers-stride-forgotten", "core/numbers.hpp", "tests/core/numbers tests/law_rows",
       "return {pointers_[static_cast<std::size_t>(i)], cols_, stride_};", "return {pointers_[static_cast<std::size_t>(i)], cols_};")
mutant("numbers-copied-packed", "core/numbers.hpp", "tests/core/numbers tests/core/row_copy",
       "out[x] = data_[x * step()];", "out[x] = data_[x];")
mutant("dense-sums-in-float", "core/numbers.hpp", "tests/core/residual tests/core/numbers",
       "constexpr Index piece_size = std::floating_point<S> ? 1024 : 256;", "const Index piece_size = std::floating_point<S> ? count : 256;")
mutant("sparse-missing-token-has-neighbour's", "core/sparse.hpp", "tests/core/sparse",
       "return k < support_size() && support(k) == x ? weight(k) : 0.0;", "return k < support_size() ? weight(k) : 0.0;")
mutant("sparse-lower-bound", "core/sparse.hpp", "tests/core/sparse",
       "static_cast<Index>(row.support(first + half)) < x", "static_cast<Index>(row.support(first + half)) <= x")
mutant("sparse-sum-one-too-far", "core/sparse.hpp", "tests/core/sparse",
       "support(k) < start + count; ++k)", "support(k) <= start + count; ++k)")
mutant("sparse-draws-positions", "core/sparse.hpp", "tests/core/sparse",
       "const Token x = row_.support(draw_(u));", "const Token x = draw_(u);")
mutant("sparse-id-cut-to-32-bits", "core/sparse.hpp", "tests/core/sparse tests/core/validate",
       "return std::in_range<Token>(id) ? static_cast<Token>(id) : std::numeric_limits<Token>::max();", "return static_cast<Token>(id);")
mutant("sparse-draw-outside", "core/sparse.hpp", "tests/core/sparse",
       "    check_id(x, row_.vocab_size());\n", "")
mutant("sparse-argmax-outside", "core/sparse.hpp", "tests/core/sparse",
       "    detail::check_id(support(best), vocab_size_);\n", "")
mutant("sparse-argmax-last-of-equals", "core/sparse.hpp", "tests/core/sparse",
       "if (weight(k) > (best < 0 ? 0.0 : weight(best))) best = k;", "if (weight(k) > 0 && weight(k) >= (best < 0 ? 0.0 : weight(best))) best = k;")
mutant("sparse-argmax-nan", "core/sparse.hpp", "tests/core/sparse",
       "if (!(weight(k) >= 0))", "if (weight(k) < 0)")
mutant("row-span-first-row", "core/row_span.hpp", "tests/core/row_span tests/law_rows",
       "return rows_[static_cast<std::size_t>(i)];", "return rows_[0 * static_cast<std::size_t>(i)];")
mutant("copy-first-block-only", "core/row_copy.hpp", "tests/core/row_copy",
       "row.block(start, count);", "row.block(0, count);")
mutant("copy-of-weights-of-first", "core/row_copy.hpp", "tests/core/row_copy",
       "weights_[static_cast<std::size_t>(k)] = row.weight(k);", "weights_[static_cast<std::size_t>(k)] = row.weight(0);")
mutant("copy-is-a-view", "core/row_copy.hpp", "tests/core/row_copy tests/draft/model_drafter",
       "return row.over(copy_.data());", "return row.over(row.logits().data());")
mutant("ids-wide-cut", "core/token_ids.hpp", "tests/core/token_ids",
       "return wide_ ? wide_[i] : std::int64_t{narrow_[i]};", "return wide_ ? static_cast<std::int32_t>(wide_[i]) : narrow_[i];")
mutant("one-hot-sum", "core/one_hot.hpp", "tests/core/one_hot",
       "start <= token_ && token_ < start + count", "start <= token_ && token_ <= start + count")
mutant("residual-draft-tail-lost", "core/residual.hpp", "tests/core/residual tests/law_rows",
       "           a * detail::mass_of(p, common, end - common);", "           0.0;")
mutant("residual-sparse-head-only", "core/residual.hpp", "tests/core/residual tests/law_rows",
       "return mass + a * mass_of(p, start, end - start);", "return mass;")
mutant("residual-gap-weight-forgotten", "core/residual.hpp", "tests/core/residual",
       "mass += a * mass_of(p, start, x - start)", "mass += mass_of(p, start, x - start)")
mutant("residual-sparse-unmerged", "core/residual.hpp", "tests/core/residual tests/law_rows",
       "q.support(j) == p.support(k)) subtrahend = q.weight(j);", "q.support(j) == p.support(k)) subtrahend = 0;")
mutant("residual-sparse-merge-late", "core/residual.hpp", "tests/core/residual tests/law_rows",
       "if constexpr (SparseRowLike<Q>) j = lower_bound(q, start);", "if constexpr (SparseRowLike<Q>) j = lower_bound(q, start + 1);")
mutant("residual-sparse-out-of-order", "core/residual.hpp", "tests/core/sparse",
       "    check_ascending(start, p.support(k));\n", "")
mutant("residual-gap-out-of-order", "core/residual.hpp", "tests/core/sparse",
       "    check_ascending(start, x);\n", "")
mutant("residual-weight-of-padding", "core/residual.hpp", "tests/core/sparse",
       "    detail::check_ascending(0, support(k));\n", "")
mutant("residual-behind-the-end", "core/residual.hpp", "tests/core/residual",
       "return count > 0 ? static_cast<double>(p.sum(start, count)) : 0.0;", "return static_cast<double>(p.sum(start, count));")
mutant("sampled-token-twice", "core/sampled.hpp", "tests/core/sampled",
       "if (std::exchange(fresh, false)) return row.first_draw();", "if (fresh) return row.first_draw();")
mutant("sampled-token-never", "core/sampled.hpp", "tests/core/sampled",
       "if (std::exchange(fresh, false)) return row.first_draw();", "(void)fresh;")
mutant("sampled-token-of-first-row", "core/sampled.hpp", "tests/core/sampled",
       "tokens_[static_cast<std::size_t>(i)]);", "tokens_[0]);")
mutant("sampled-token-unchecked", "core/sampled.hpp", "tests/core/sampled",
       "if (token_ < 0 || !drawable())", "if (token_ < 0)")
mutant("sampled-nan", "core/sampled.hpp", "tests/core/sampled",
       "else return specdec::probability(row, token_) > 0;", "else return specdec::probability(row, token_) != 0;")
mutant("sampled-count", "core/sampled.hpp", "tests/core/sampled",
       "if (std::ssize(tokens) != rows_.rows())", "if (std::ssize(tokens) > rows_.rows())")
mutant("validate-ids-order", "core/validate.hpp", "tests/core/validate",
       "if (x < least)", "if (false)")
mutant("validate-ids-twice", "core/validate.hpp", "tests/core/validate",
       "least = Index{x} + 1;", "least = Index{x};")
mutant("validate-ids-range", "core/validate.hpp", "tests/core/validate",
       "      check_id(x, vocab_size);\n", "")
mutant("validate-row-size", "core/validate.hpp", "tests/core/validate",
       "if (row.vocab_size() != vocab_size)", "if (false)")
mutant("foreign-token-known", "core/distribution.hpp", "tests/verify/drafted_block tests/law_rows",
       "return x < row.vocab_size() ? static_cast<double>(row.probability(x)) : 0.0;", "return static_cast<double>(row.probability(x < row.vocab_size() ? x : 0));")
mutant("foreign-token-refused", "verify/drafted_block.hpp", "tests/verify/drafted_block tests/law_rows",
       "return std::max<Index>(known, draft_.matrix().vocab_size());", "return std::min<Index>(known, draft_.matrix().vocab_size());")
mutant("rows-made-twice", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "made_ |= std::uint64_t{1} << i;", "")
mutant("row-behind-the-few", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "more_[static_cast<std::size_t>(i - few)]", "more_[0 * static_cast<std::size_t>(i - few)]")
mutant("sampler-search-offset", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "      u -= mass;\n", "")
mutant("sampler-search-without-end", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "if (chosen < 0) chosen = scan(first, end, most);", "")

mutant = promise("entropy is that of the whole row, and a policy stops before a row that has more than it allows")
mutant("entropy-noughts", "core/entropy.hpp", "tests/core/entropy", "(p == 0).select(p, p * p.log())", "(p * p.log())")
mutant("entropy-listed-noughts", "core/entropy.hpp", "tests/core/entropy",
       "row.weight(k);\n      if (p != 0) sum", "row.weight(k);\n      sum")
mutant("entropy-first-block", "core/entropy.hpp", "tests/core/entropy",
       "row.block(start, std::min(", "row.block(0, std::min(")
mutant("entropy-policy-inverted", "draft/draft_length.hpp", "tests/draft/draft_length",
       "return entropy(row) <= most_;", "return entropy(row) > most_;")

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

mutant = promise("the laws themselves notice, each by what it alone enumerates or samples")
mutant("one-hot-by-half", "core/one_hot.hpp", "tests/law_drafters",
       "return x == token_ ? 1.0 : 0.0;", "return x == token_ ? 0.5 : 0.0;")
mutant("sampled-race-forgets-its-weight", "core/race.hpp", "tests/law_sampled",
       "residual(w, p, 1.0, q, y) / weight", "residual(1.0, p, 1.0, q, y) / p.probability(y)")
mutant("race-against-another-row", "verify/drafted_block.hpp", "tests/law_rounds",
       "chance.race(w, p, block.q(i))", "chance.race(w, p, block.q(0))")
mutant("rows-of-every-kind-raced-against-nothing", "verify/drafted_block.hpp", "tests/law_rows",
       "chance.race(w, p, block.q(i))", "chance.race(w, p)")
