"""Mutants of rows, matrices of rows and everything that reads them."""

from mutants import promise

mutant = promise("a draw is the inverse distribution function of its row; never a token of probability 0")
mutant("draw-block-search", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       "std::upper_bound(", "std::lower_bound(")
mutant("draw-stops-reading-late", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       "!(u < total()))) extend();", "!(u <= total()))) extend();")
mutant("draw-token-search", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       "x < end && sum <= u; ++x)", "x < end && sum < u; ++x)")
mutant("draw-zero-mass", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler", "if (!(mass > 0)) continue;", "")
mutant("draw-short-row", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler", "if (segments_ == 0 || !(u < total())) u = wrap(u);", "")
mutant("draw-short-row-head", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       "const double v = (u - total()) / (1 - total()) * total();", "const double v = 0;")
mutant("draw-offset-forgotten", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       "search(segment, u - (segment == 0 ? 0.0 : sums_[static_cast<std::size_t>(segment - 1)]))", "search(segment, u)")
mutant("draw-without-mass", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       'detail::invalid_distribution("the probabilities sum to 0");', "")
mutant("draw-from-too-much", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler", "if (total() + sum > most())", "if (false)")
mutant("draw-nan-block", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler tests/verify/drafted",
       "if (!(sum >= 0) || !std::isfinite(sum))", "if (sum < 0)")
mutant("draw-from-nearly-two", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       "return 1.01 + ", "return 1.9 + ")
mutant("mass-of-halves-refused", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       "static_cast<double>(size) * rounding_of_small<Row>", "0 * rounding_of_small<Row>")
mutant("mass-of-any-scalar-forgiven", "rows/numbers.hpp", "tests/rows/read/prefix_sampler",
       "? 0x1p-25 : 0.0", "? 0x1p-25 : 0x1p-20")

mutant = promise("a view reads any layout; argmax takes the lowest id and refuses NaN")
mutant("dense-argmax-of-no-mass", "rows/kinds/dense.hpp", "tests/rows/kinds/dense", "!(numbers_[x] > 0)", "!(numbers_[x] >= 0)")
mutant("logits-normaliser-of-first-row", "rows/kinds/logits.hpp", "tests/rows/kinds/logits",
       "LogSumExp{options_.log_sum_exp[static_cast<std::size_t>(i)]}", "LogSumExp{options_.log_sum_exp[static_cast<std::size_t>(0 * i)]}")
mutant("logits-at-an-infinite-temperature", "rows/kinds/logits.hpp", "tests/rows/kinds/logits",
       "options.temperature >= 0 && options.temperature <= std::numeric_limits<double>::max()", "options.temperature >= 0")
mutant("logits-with-too-few-normalisers", "rows/kinds/logits.hpp", "tests/rows/kinds/logits",
       "std::ssize(options.log_sum_exp) != rows()", "std::ssize(options.log_sum_exp) > rows()")
mutant("view-strides-swapped", "rows/numbers.hpp", "tests/rows/kinds/dense",
       "down_(M::IsRowMajor ? matrix.outerStride() : matrix.innerStride())", "down_(M::IsRowMajor ? matrix.innerStride() : matrix.outerStride())")
mutant("view-stride-forgotten", "rows/numbers.hpp", "tests/rows/numbers",
       "data_ + start * step(), count", "data_ + start, count")
mutant("one-hot-everywhere", "rows/kinds/one_hot.hpp", "tests/rows/kinds/one_hot tests/law_lossless",
       "return x == token_ ? 1.0 : 0.0;", "return 1.0;")

mutant = promise("a residual is (a·p − b·q)+, and NaN stays in sight")
mutant("residual-absolute", "rows/read/residual.hpp", "tests/rows/read/residual",
       "return difference < 0 ? 0 : difference;", "return difference < 0 ? -difference : difference;")
mutant("residual-nan", "rows/read/residual.hpp", "tests/rows/read/residual",
       "return difference < 0 ? 0 : difference;", "return difference > 0 ? difference : 0;")
mutant("residual-unclipped", "rows/read/residual.hpp", "tests/rows/read/residual tests/chance/race",
       "return std::max(difference, 0.0);", "return difference;")
mutant("residual-not-normalised", "rows/read/residual.hpp", "tests/rows/read/residual tests/chance/race",
       "return residual(a_, p_, b_, q_, x) / mass_;", "return residual(a_, p_, b_, q_, x);")
mutant("residual-nan-is-nothing", "rows/read/residual.hpp", "tests/rows/read/residual tests/verify/drafted",
       "if (!std::isfinite(difference))", "if (false)")

mutant = promise("rows of every kind mean what they hold")
mutant("pointers-first-row-only", "rows/numbers.hpp", "tests/rows/numbers",
       "pointers_[static_cast<std::size_t>(i)], cols_", "pointers_[0] + 0 * i, cols_")
mutant("pointers-stride-forgotten", "rows/numbers.hpp", "tests/rows/numbers tests/law_rows",
       "return {pointers_[static_cast<std::size_t>(i)], cols_, stride_};", "return {pointers_[static_cast<std::size_t>(i)], cols_};")
mutant("numbers-copied-packed", "rows/numbers.hpp", "tests/rows/numbers tests/rows/kinds/row_copy",
       "out[x] = data_[x * step()];", "out[x] = data_[x];")
mutant("pairs-last-lot-lost", "rows/read/segments.hpp", "tests/rows/read/residual tests/rows/read/overlap",
       "if (whole == count) return sum;", "return sum;")
mutant("numbers-filled-up-with-0", "rows/numbers.hpp", "tests/rows/numbers",
       "each_lots(start, count, least, [&]", "each_lots(start, count, Scalar{0}, [&]")
mutant("numbers-first-max", "rows/numbers.hpp", "tests/rows/numbers",
       "if (!(m <= largest)) largest = std::isnan(largest) ? largest : m;", "largest = m;")
mutant("numbers-strided-as-neighbours", "rows/numbers.hpp", "tests/rows/numbers",
       "if (step() == 1) {", "if (true) {")
mutant("list-row-by-place", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row", "if (x < size() && id_at(x) == x) return x;", "if (x < size()) return x;")
mutant("list-row-sum-one-too-far", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row",
       "if (start <= id_at(k) && id_at(k) - start < count) sum", "if (start <= id_at(k) && id_at(k) - start <= count) sum")
mutant("list-row-segment-one-too-early", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row",
       "if (start <= id_at(k) && id_at(k) - start < count) out", "if (start < id_at(k) && id_at(k) - start < count) out")
mutant("list-row-draws-places", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row",
       "Token support(Index k) const { return row.id_at(k); }", "Token support(Index k) const { return static_cast<Token>(k); }")
mutant("list-row-mass-unchecked", "rows/list.hpp", "tests/rows/kinds/list_row", "<= 1e-3 +", "<= 1e3 +")
mutant("list-of-an-unnormalised-cut", "rows/list.hpp", "tests/c/specdec", "<= 1e-3 +", "<= 3e-2 +")
mutant("list-row-negative", "rows/list.hpp", "tests/rows/kinds/list_row", "if (!(row.listed(k) >= 0))", "if (false)")
mutant("list-row-copy-reads-the-original", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row", "row.list_ = copy;", "")
mutant("list-row-of-any-length-summed", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row",
       "if (list.size() > checked_size) return;", "")
mutant("list-row-temperature-forgotten", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row",
       "normalise(1 / logits.temperature);", "normalise(1);")
mutant("list-row-all-equal-is-nan", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row",
       "std::max(inverse_temperature, std::numeric_limits<double>::min());", "inverse_temperature;")
mutant("list-row-shift-forgotten", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row", "shift_ = value(largest_);", "")
mutant("list-row-last-of-equals", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row",
       "id_at(k) < id_at(best))) best", "id_at(k) > id_at(best))) best")
mutant("sparse-row-of-half-the-mass", "rows/list.hpp", "tests/rows/kinds/sparse", "if (draw_.knows_sum() && !(draw_.sum() >= 0.99", "if (draw_.knows_sum() && !(draw_.sum() >= 0.97")
mutant("sparse-row-longer-than-its-vocabulary", "rows/kinds/sparse.hpp", "tests/rows/kinds/sparse", "if (support_size() > vocab_size)", "if (false)")
mutant("common-tokens-confident-at-temperature-0", "rows/kinds/mapped.hpp", "tests/rows/kinds/mapped", "return of_copy(row_.unprocessed());", "return *this;")
mutant("part-of-a-row-unprocessed-is-processed", "rows/kinds/part_of_row.hpp", "tests/rows/kinds/mapped", "const auto row = row_.unprocessed();", "const auto row = row_;")
mutant("list-row-infinite-logit", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row",
       "if (largest_ >= 0 && std::isinf(value(largest_)) && value(largest_) > 0)", "if (false)")
mutant("list-row-error-unnamed", "verify/drafted.hpp", "tests/rows/kinds/list_row",
       "return detail::in_row(name, i, [&] { return detail::NamedRow(rows[i], name, i); });", "return detail::NamedRow(rows[i], name, i);")
mutant("sparse-missing-token-has-neighbour's", "rows/kinds/sparse.hpp", "tests/rows/kinds/sparse",
       "return k < support_size() && support(k) == x ? listed(k) : 0.0;", "return k < support_size() ? listed(k) : 0.0;")
mutant("sparse-lower-bound", "rows/list.hpp", "tests/rows/kinds/sparse",
       "static_cast<Index>(row.support(first + half)) < x", "static_cast<Index>(row.support(first + half)) <= x")
mutant("sparse-sum-one-too-far", "rows/kinds/sparse.hpp", "tests/rows/kinds/sparse",
       "support(k) < start + count; ++k)", "support(k) <= start + count; ++k)")
mutant("sparse-draws-positions", "rows/list.hpp", "tests/rows/kinds/sparse",
       "const Token x = row_.support(draw_(u));", "const Token x = draw_(u);")
mutant("sparse-id-cut-to-32-bits", "rows/kinds/sparse.hpp", "tests/rows/kinds/sparse tests/rows/read/validate",
       "return std::in_range<Token>(id) ? static_cast<Token>(id) : std::numeric_limits<Token>::max();", "return static_cast<Token>(id);")
mutant("sparse-draw-outside", "rows/list.hpp", "tests/rows/kinds/sparse",
       "    check_id(x, row_.vocab_size());\n", "")
mutant("sparse-argmax-outside", "rows/kinds/sparse.hpp", "tests/rows/kinds/sparse",
       "    detail::check_id(support(best), vocab_size_);\n", "")
mutant("sparse-argmax-last-of-equals", "rows/kinds/sparse.hpp", "tests/rows/kinds/sparse",
       "if (listed(k) > (best < 0 ? 0.0 : listed(best))) best = k;", "if (listed(k) > 0 && listed(k) >= (best < 0 ? 0.0 : listed(best))) best = k;")
mutant("sparse-argmax-nan", "rows/kinds/sparse.hpp", "tests/rows/kinds/sparse",
       "if (!(listed(k) >= 0))", "if (listed(k) < 0)")
mutant("row-span-first-row", "rows/kinds/row_span.hpp", "tests/rows/kinds/row_span tests/law_rows",
       "return rows_[static_cast<std::size_t>(i)];", "return rows_[0 * static_cast<std::size_t>(i)];")
mutant("copy-first-segment-only", "rows/kinds/row_copy.hpp", "tests/rows/kinds/row_copy",
       "copy_.data() + ids(0), p.size()) = p;", "copy_.data(), p.size()) = p;")
mutant("copy-of-the-first-listed", "rows/kinds/row_copy.hpp", "tests/rows/kinds/row_copy",
       "probabilities_.push_back(p[k]);", "probabilities_.push_back(p[0]);")
mutant("copy-is-a-view", "rows/kinds/row_copy.hpp", "tests/rows/kinds/row_copy tests/draft/strategies/line",
       "return row.over(copy_.data());", "return row.over(row.logits().data());")
mutant("ids-wide-cut", "token_ids.hpp", "tests/token_ids",
       "return wide_ ? std::int64_t{wide_[i]} :", "return wide_ ? static_cast<std::int32_t>(wide_[i]) :")
mutant("one-hot-sum", "rows/kinds/one_hot.hpp", "tests/rows/kinds/one_hot",
       "start <= token_ && token_ < start + count", "start <= token_ && token_ <= start + count")
mutant("residual-draft-tail-lost", "rows/read/segments.hpp", "tests/rows/read/residual tests/law_rows",
       "return sum_over_segments(f, p, q, start, common) + f.alone(p, common, end);",
       "return sum_over_segments(f, p, q, start, common);")
mutant("residual-sparse-head-only", "rows/read/segments.hpp", "tests/rows/read/residual tests/law_rows",
       "return sum + f.alone(p, start, end);", "return sum;")
mutant("residual-gap-weight-forgotten", "rows/read/residual.hpp", "tests/rows/read/residual",
       "a * static_cast<double>(p.sum(start, end - start))", "static_cast<double>(p.sum(start, end - start))")
mutant("residual-sparse-unmerged", "rows/read/segments.hpp", "tests/rows/read/residual tests/law_rows",
       "q.support(j) == x) q_x = q.listed(j);", "q.support(j) == x) q_x = 0;")
mutant("residual-sparse-merge-late", "rows/read/segments.hpp", "tests/rows/read/residual tests/law_rows",
       "if constexpr (ListedRow<Q>) j = lower_bound(q, start);", "if constexpr (ListedRow<Q>) j = lower_bound(q, start + 1);")
mutant("residual-sparse-out-of-order", "rows/read/segments.hpp", "tests/rows/kinds/sparse",
       "    check_ascending(p, k, start);\n    start = Index{x} + 1;\n    double q_x = 0;", "    start = Index{x} + 1;\n    double q_x = 0;")
mutant("residual-gap-out-of-order", "rows/read/segments.hpp", "tests/rows/kinds/sparse",
       "    check_ascending(q, k, start);\n    sum += f.alone", "    sum += f.alone")
mutant("residual-weight-of-padding", "rows/read/residual.hpp", "tests/rows/kinds/sparse",
       "    detail::check_ascending(p_, k, 0);\n", "")
mutant("residual-after-the-end", "rows/read/residual.hpp", "tests/rows/read/residual",
       "return start < end ? a *", "return true ? a *")
mutant("sampled-token-twice", "rows/kinds/sampled.hpp", "tests/rows/kinds/sampled",
       "if (std::exchange(row.fresh_, false)) return row.first_draw();", "if (row.fresh_) return row.first_draw();")
mutant("sampled-token-for-each-sampler", "rows/kinds/sampled.hpp", "tests/rows/kinds/sampled",
       "    give_away();\n    return row;", "    return row;")
mutant("sampled-token-within-given-twice", "rows/kinds/sampled.hpp", "tests/rows/kinds/sampled",
       "R::give_away();", "(void)0;")
mutant("sampled-token-never", "rows/kinds/sampled.hpp", "tests/rows/kinds/sampled",
       "if (std::exchange(row.fresh_, false)) return row.first_draw();", "")
mutant("sampled-token-of-first-row", "rows/kinds/sampled.hpp", "tests/rows/kinds/sampled",
       "tokens_[static_cast<std::size_t>(i)]);", "tokens_[0]);")
mutant("sampled-token-unchecked", "rows/kinds/sampled.hpp", "tests/rows/kinds/sampled",
       "if (token_ >= 0 && drawable())", "if (token_ >= 0)")
mutant("sampled-list-unchecked", "rows/kinds/sampled.hpp", "tests/rows/kinds/sampled",
       "    detail::check_list<R>(*this);  // one that is out of order hides its tokens\n", "")
mutant("sampled-nan", "rows/kinds/sampled.hpp", "tests/rows/kinds/sampled",
       "else return specdec::probability(row, token_) > 0;", "else return specdec::probability(row, token_) != 0;")
mutant("sampled-count", "rows/kinds/sampled.hpp", "tests/rows/kinds/sampled",
       "if (std::ssize(tokens) != rows_.rows())", "if (std::ssize(tokens) > rows_.rows())")
mutant("validate-ids-unchecked", "rows/read/validate.hpp", "tests/rows/read/validate", "  check_list(row);\n", "")
mutant("list-ids-order", "rows/list.hpp", "tests/rows/read/validate",
       "      check_ascending(row, k, least);\n", "")
mutant("list-ids-twice", "rows/list.hpp", "tests/rows/read/validate",
       "least = Index{row.support(k)} + 1;", "least = Index{row.support(k)};")
mutant("list-ids-range", "rows/list.hpp", "tests/rows/read/validate",
       "      check_id(row.support(k), row.vocab_size());\n", "")
mutant("list-negative-id-is-out-of-order", "rows/list.hpp", "tests/rows/kinds/sparse",
       "  if (x < 0 || k == 0) check_id(x, row.vocab_size());\n", "")
mutant("validate-row-size", "rows/read/validate.hpp", "tests/rows/read/validate",
       "if (row.vocab_size() != vocab_size)", "if (false)")
mutant("foreign-token-known", "rows/distribution.hpp", "tests/verify/drafted tests/law_rows",
       "return x < row.vocab_size() ? static_cast<double>(row.probability(x)) : 0.0;", "return static_cast<double>(row.probability(x < row.vocab_size() ? x : 0));")
mutant("foreign-token-refused", "verify/drafted.hpp", "tests/verify/drafted tests/law_rows",
       "return std::max<Index>(vocab_size(), rows_.draft.matrix().vocab_size());",
       "return std::min<Index>(vocab_size(), rows_.draft.matrix().vocab_size());")
mutant("rows-made-twice", "rows/row_cache.hpp", "tests/verify/drafted",
       "      word |= bit;\n", "")
mutant("row-after-the-few", "rows/row_cache.hpp", "tests/verify/drafted",
       "more_[static_cast<std::size_t>(i - few_rows)]", "more_[0 * static_cast<std::size_t>(i - few_rows)]")
mutant("sampler-search-offset", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       "      u -= mass;\n", "")
mutant("sampler-search-without-end", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       "if (chosen < 0) chosen = scan(first, end, most());", "")

mutant = promise("entropy is that of the whole row, and a policy stops before a row that has more than it allows")
LARGEST = "tests/rows/read/largest_probability"
mutant("largest-of-the-last-segment", "rows/read/largest_probability.hpp", LARGEST, "most = std::max(most, one);", "most = k == 0 ? one : std::max(most, one);")
mutant("largest-beside-nan", "rows/read/largest_probability.hpp", LARGEST, "if (!is_probability(one)) invalid", "if (one < 0) invalid")
mutant("entropy-noughts", "rows/read/entropy.hpp", "tests/rows/read/entropy", "(p == 0).select(p, p * p.log())", "(p * p.log())")
mutant("segments-out-of-order", "rows/read/segments.hpp", "tests/rows/read/segments",
       "      check_ascending(row, k, least);\n      least = Index{x} + 1;\n", "")
mutant("segments-loses-the-rest", "rows/read/segments.hpp", "tests/rows/read/segments", "    });\n    hand_out();\n", "    });\n")
mutant("segments-ids-from-the-start", "rows/read/segments.hpp", "tests/rows/read/segments",
       "visit([start](Index k) { return static_cast<Token>(start + k); }, p);",
       "visit([](Index k) { return static_cast<Token>(k); }, p);")
mutant("segments-looked-up", "rows/read/segments.hpp", "tests/rows/read/segments",
       "} else if constexpr (SegmentedRow<P> && SegmentedRow<Q> && p_may_stand_alone) {", "} else if constexpr (false) {")
mutant("segments-gathered", "rows/read/segments.hpp", "tests/rows/read/segments",
       "if constexpr (SegmentedRow<R> && !ListedRow<R>) {", "if constexpr (false) {")
mutant("lists-looked-up", "rows/read/segments.hpp", "tests/rows/read/segments",
       "} else if constexpr (ListedRow<Q> && p_may_stand_alone) {", "} else if constexpr (false) {")
mutant("segments-first-segment", "rows/read/segments.hpp", "tests/rows/read/segments tests/rows/read/entropy",
       "row.segment(start, std::min<Index>(", "row.segment(0, std::min<Index>(")
mutant("entropy-policy-inverted", "draft/length/draft_length.hpp", "tests/draft/length/draft_length",
       "read_unprocessed(row, i, finite_entropy) <= most_;", "read_unprocessed(row, i, finite_entropy) > most_;")

mutant = promise("bad input is named, never guessed around")
mutant("validate-loosely", "rows/read/validate.hpp", "tests/rows/read/validate", "double tolerance = 1e-3)", "double tolerance = 4e-2)")
mutant("named-twice", "error.hpp", "tests/rows/named_row tests/error", "if (row_ >= 0) return *this;", "")
mutant("first-row-named-twice", "error.hpp", "tests/error", "if (row_ >= 0) return *this;", "if (row_ > 0) return *this;")
mutant("sign-of-nan-told", "error.hpp", "tests/error", "std::isnan(number_.real) ? std::abs(number_.real) : number_.real", "number_.real")
mutant("nothing-undone-on-error", "error.hpp", "tests/error", "    undo();\n    throw;", "    throw;")
mutant("error-not-changed-by-its-caller", "error.hpp", "tests/error", "throw changed(error);", "throw;")
mutant("error-handler-of-nothing", "error.hpp", "tests/error", "handler == nullptr ? detail::print_error : handler", "handler")
mutant("origin-left-out", "error.hpp", "tests/error", "    named.row_ = row;\n", "")
mutant("named-row-before-its-start", "rows/named_row.hpp", "tests/rows/named_row",
       "    check_id(x);\n    return 0;", "    return 0;")
mutant("named-row-after-its-end", "rows/named_row.hpp", "tests/rows/named_row",
       "static_cast<std::size_t>(x) >= static_cast<std::size_t>(vocab_size())", "x < 0")
mutant("named-segment-after-the-end", "rows/named_row.hpp", "tests/rows/named_row",
       "start < 0 || count < 0 || count > size - start", "start < 0 || count < 0")
mutant("named-weight-unchecked", "rows/named_row.hpp", "tests/rows/named_row",
       "return checked(support(k), row_->listed(k));", "return row_->listed(k);")
mutant("named-draw-unnamed", "rows/named_row.hpp", "tests/rows/named_row",
       "return row.named([&] { return draw(u); });", "return draw(u);")

mutant("row-of-no-memory", "rows/numbers.hpp", "tests/rows/numbers",
       "data_ == nullptr ? nullptr : data_ + i * down_", "data_ + i * down_")
mutant("vectors-of-any-length", "rows/numbers.hpp", "tests/rows/numbers", "if (length(at(i)) != cols_)", "if (false)")
mutant("row-larger-than-its-matrix", "rows/kinds/row_span.hpp", "tests/rows/kinds/row_span",
       "row(i).vocab_size() > vocab_size)", "false)")
mutant("row-span-of-a-temporary", "rows/kinds/row_span.hpp", "tests/rows/owning_temporary",
       "  template <detail::OwningTemporary Temporary>\n  RowSpan(Temporary&& rows, Index vocab_size) = delete;\n", "")
mutant("owner-among-ranges", "rows/owning_temporary.hpp", "tests/rows/owning_temporary",
       "else return std::ranges::range<T> && !std::ranges::borrowed_range<T>;", "else return false;")
mutant("id-beyond-all-tokens", "token_ids.hpp", "tests/token_ids", "if (tokens[i] > largest)", "if (false)")

mutant = promise("stored rows outlive what they were made of, unless they are stable")
mutant("stored-rows-never-cleared", "rows/kinds/stored_rows.hpp", "tests/rows/kinds/stored_rows",
       "void clear() { rows_.clear(); }", "void clear() {}")
mutant("stored-rows-in-one-memory", "rows/kinds/stored_rows.hpp", "tests/rows/kinds/stored_rows",
       "copies_[rows_.size()].assign(row)", "copies_[0].assign(row)")

mutant("stored-copy-unnamed", "rows/kinds/stored_rows.hpp", "tests/draft/strategies/line",
       "row.named([&] { add(row.unnamed()); });", "add(row.unnamed());")

mutant = promise("the laws themselves notice, each by what it alone enumerates or samples")
mutant("scratch-for-63-tokens", "rows/scratch.hpp", "tests/law_allocation", "few_rows = 65;", "few_rows = 64;")
mutant("one-hot-by-half", "rows/kinds/one_hot.hpp", "tests/law_drafters",
       "return x == token_ ? 1.0 : 0.0;", "return x == token_ ? 0.5 : 0.0;")
mutant("sampled-race-forgets-its-weight", "chance/race.hpp", "tests/law_sampled",
       "residual(w, p, 1.0, q, y) / weight", "residual(1.0, p, 1.0, q, y) / p.probability(y)")
mutant("race-against-another-row", "verify/drafted.hpp", "tests/law_rounds",
       "chance.race(w, p, draft(i))", "chance.race(w, p, draft(0))")
mutant("rows-of-every-kind-raced-against-nothing", "verify/drafted.hpp", "tests/law_rows",
       "chance.race(w, p, draft(i))", "chance.race(w, p)")

mutant = promise("an overlap is the sum of minima, and NaN stays in sight")
mutant("overlap-nan", "rows/read/overlap.hpp", "tests/rows/read/overlap", "return scaled_p != scaled_p ? scaled_p : least;", "return least;")
mutant("overlap-largest", "rows/read/overlap.hpp", "tests/rows/read/overlap", "scaled_p < scaled_q ? scaled_p", "scaled_p > scaled_q ? scaled_p")
mutant("overlap-lenience", "rows/read/overlap.hpp", "tests/rows/read/overlap", "OverlapOf{1 / lenience, 1.0}", "OverlapOf{1.0, lenience}")
mutant("overlap-lists-swapped", "rows/read/overlap.hpp", "tests/rows/read/overlap", "scaled_p = a * p, scaled_q = b * q;", "scaled_p = b * p, scaled_q = a * q;")
mutant("segments-overlap", "rows/read/segments.hpp", "tests/rows/read/overlap tests/rows/read/residual",
       "  for (; start < end; start += max_segment_size) {", "  for (; start < end; start += max_segment_size + 1) {")

mutant = promise("numbers that cannot be are named, and no view of what is gone is taken")
PREFIX = "tests/rows/read/prefix_sampler"
mutant("draw-of-no-number", "rows/read/prefix_sampler.hpp", PREFIX, "    check_number(u);\n    if (!(total() > 0)) {", "    if (!(total() > 0)) {")
mutant("draw-below-zero", "rows/read/prefix_sampler.hpp", PREFIX, "    if (chosen < 0) check_number(u);\n", "")
mutant("copied-rows-of-another", "rows/kinds/stored_rows.hpp", "tests/rows/kinds/stored_rows",
       "StoredRows(const StoredRows&) {}", "StoredRows(const StoredRows&) = default;")
mutant("null-row", "rows/numbers.hpp", "tests/rows/numbers", "vocab_size > 0 && i < rows(); ++i)", "false; ++i)")
mutant("rows-beyond-memory", "rows/numbers.hpp", "tests/rows/numbers", "vocab_size > most / stride ||", "")
mutant("ref-taken-for-a-view", "rows/owning_temporary.hpp", "tests/rows/owning_temporary",
       "may_hold_a_copy<Eigen::Ref<const M, Options, Stride>> = true;", "may_hold_a_copy<Eigen::Ref<const M, Options, Stride>> = false;")
mutant("tolerance-of-no-number", "rows/read/validate.hpp", "tests/rows/read/validate", "if (!(tolerance >= 0)) detail", "if (tolerance < 0) detail")
mutant("sparse-row-below-zero", "rows/kinds/sparse.hpp", "tests/rows/kinds/sparse", "if (vocab_size < 0) detail", "if (false) detail")
mutant("library-named-twice", "error.hpp", "tests/error", "text.starts_with(library) ?", "false ?")
mutant("no-number-of-tokens-told-as-a-double", "types.hpp", "tests/types", " && !std::floating_point<std::remove_cvref_t<N>>;", ";")

PART, PART_TEST = "rows/kinds/part_of_row.hpp", "tests/rows/kinds/part_of_row"
mutant = promise("a part of a row is the row given that it is one of some tokens")
mutant("part-unnormalised", PART, PART_TEST, "mass_ > 0 ? p / mass_ : p", "p")
mutant("part-drawn-of-all", PART, PART_TEST, "return draw(u * mass);", "return draw(u);")
mutant("part-lists-of-all", PART, PART_TEST, "return tokens_.has(row_.support(k)) ? normalised(", "return true ? normalised(")
mutant("part-of-nan", PART, PART_TEST, "if (!(mass >= 0) || !std::isfinite(mass))", "if (false)")
mutant("without-what-cancels-out", PART, PART_TEST, "if (taken <= 0.5) return 1 - taken;", "return 1 - taken;")
mutant("without-segments-with", PART, PART_TEST, "stretch[x - start] = 0;", "stretch[x - start] *= 1;")
mutant("without-counted-twice", PART, PART_TEST, "if (*x >= 0 && std::find(gone.begin(), x, *x) == x)", "if (*x >= 0)")
mutant("without-the-first-gap-only", PART, PART_TEST, "if (x >= start && x < end) end = x;", "if (x >= start) return std::min<Index>(x, end);")
mutant("only-segments-of-all", PART, PART_TEST, "tokens_.has(static_cast<Token>(start + i)) ? stretch[i] : 0.0", "stretch[i]")
mutant("only-keeps-what-is-not-told", PART, PART_TEST, "i < kept.size() && kept[i] != 0", "i >= kept.size() || kept[i] != 0")

TOP_TOKENS = "tests/rows/read/top_tokens"
mutant = promise("the likeliest tokens of a row are those that sorting finds")
mutant("top-later-of-equals", "rows/read/top_tokens.hpp", TOP_TOKENS, "found_[k - 1].probability < top.probability", "found_[k - 1].probability <= top.probability")
mutant("top-nan-passed-over", "rows/read/top_tokens.hpp", TOP_TOKENS, "if (!(data[k] <= least_)) enter", "if (data[k] > least_) enter")
mutant("top-of-the-first-ones", "rows/read/top_tokens.hpp", TOP_TOKENS, "if (std::ssize(found_) == count_) found_.pop_back();", "if (std::ssize(found_) == count_) return;")
mutant("top-of-no-probability", "rows/read/top_tokens.hpp", TOP_TOKENS, "!(found_.back().probability > 0)", "!(found_.back().probability >= 0)")
mutant("top-lots-passed-over", "rows/read/top_tokens.hpp", TOP_TOKENS, "if (has_none(data + start, end - start)) continue;", "if (start > 0 && !has_none(data + start, end - start)) continue;")
mutant("logits-sum-of-half-a-stretch", "rows/kinds/logits_row.hpp", "tests/rows/kinds/logits_row " + PART_TEST, "start % stretch_ == 0 && next - start == stretch_size(start)", "start % stretch_ == 0")

SHARDED = "tests/ranks/sharded"
mutant = promise("rows spread over ranks have the whole rows' law, on every rank")
mutant("exchanged-sum-without-the-first", "ranks/exchange.hpp", SHARDED,
       "for (Index r = 0; r < ranks(); ++r) sum += from(r, k);", "for (Index r = 1; r < ranks(); ++r) sum += from(r, k);")
mutant("known-probability-of-another-row", "ranks/looked_up.hpp", SHARDED,
       "each.row == row && each.token == token", "each.token == token && row >= 0")
mutant("shard-columns-unshifted", "ranks/rank_draws.hpp", SHARDED, "token = static_cast<double>(mine_.first() + x)", "token = static_cast<double>(x)")
mutant("shard-logits-normalised-alone", "ranks/rank_masses.hpp", SHARDED, "return normalised_alone(i) ? of(i, rank) : 1.0;", "return 1.0;")
mutant("shard-draws-from-the-first", "ranks/rank_masses.hpp", SHARDED, "if (u < 0 && owner == r) break;", "if (owner == r) break;")
mutant("shard-draws-unshifted", "ranks/rank_masses.hpp", SHARDED, "for (Index r = 0; r < owner; ++r) u -= of(i, r);", "")
mutant("shard-draw-serves-twice", "ranks/sharded.hpp", SHARDED, "drawn(i, used++)", "drawn(i, 0 * used++)")
mutant("shard-draw-for-each-sampler", "ranks/sharded_rows.hpp", SHARDED, "return [shards = shards_, i = i_](double u) { return shards->next_draw(i, u); };",
       "return [shards = shards_, i = i_, k = Index{0}](double u) mutable { return k < shards->ahead_ ? shards->drawn(i, k++) : shards->draw(i, u); };")
mutant("shard-tokens-unlooked-up", "ranks/sharded.hpp", SHARDED, "if (const auto known = looked_up_.find(i, x)) return *known;", "")
mutant("shards-need-not-agree", "ranks/sharded.hpp", SHARDED, 'check_alike(2, "the tokens', 'check_alike(1, "the tokens')
mutant("shards-generators-need-not-agree", "ranks/rank_draws.hpp", SHARDED, "    exchange_.check_alike(0, what_generators_give);\n    for", "    for")
mutant("shard-of-nan-is-empty", "ranks/rank_columns.hpp", SHARDED, "possible(row, x) || nan(x)", "possible(row, x)")
mutant("shard-argmax-by-probability", "ranks/rank_columns.hpp", SHARDED, "static_cast<double>(rows_[i].logits()[x]);", "static_cast<double>(rows_[i].probability(x));")
mutant("shard-argmax-of-the-others", "ranks/sharded.hpp", SHARDED, "if (!(exchange_.from(r, 0) > mine_.least_height))", "if (false)")
mutant("shard-draws-what-is-missing-last", "ranks/rank_masses.hpp", SHARDED, "return u < all ? u : (u - all) / (1 - all) * all;", "return u;")
mutant("shard-draws-half-replaced", "ranks/sharded.hpp", SHARDED, "    drawing_.clear();\n", "    drawing_.clear(), drawn_.assign(drawn_.size(), -1);\n")
mutant("shards-with-gaps", "ranks/sharded.hpp", SHARDED, "if (first != next)", "if (false)")
mutant("shards-parents-need-not-agree", "ranks/sharded.hpp", SHARDED, "    add(parents);\n", "")
mutant("shards-rows-need-not-agree", "ranks/sharded.hpp", SHARDED, 'exchange_.check_alike(0, "how many rows they have");', "")
mutant("shards-vocabularies-need-not-agree", "ranks/sharded.hpp", SHARDED, 'exchange_.check_alike(1, "the size of the vocabulary");', "")
mutant("shards-largest-on-every-rank", "ranks/rank_masses.hpp", SHARDED, "w == largest && all == 0 ? 1.0 : 0.0", "w == largest ? 1.0 : 0.0")
mutant("shard-segment-of-each-alone", "ranks/sharded.hpp", SHARDED, "out.push_back(has_mass(i) ? share(i) * mine_.probability(i, static_cast<Token>(x)) : 0.0);", "out.push_back(has_mass(i) ? mine_.probability(i, static_cast<Token>(x)) : 0.0);")
mutant("shard-sum-of-each-alone", "ranks/sharded.hpp", SHARDED, "has_mass(i) ? share(i) * mine_.sum(i, start, count) : 0.0;", "has_mass(i) ? mine_.sum(i, start, count) : 0.0;")
mutant("shard-draws-ahead-by-one-number", "ranks/sharded.hpp", SHARDED, "if constexpr (std::invocable<Uniform&>) us_[k] = uniform();", "if constexpr (std::invocable<Uniform&>) us_[k] = k == 0 ? uniform() : us_[0];")
mutant("shard-draw-of-no-probability", "ranks/rank_draws.hpp", SHARDED, "if (!(token >= 0) || !(p > 0))", "if (!(token >= 0))")
mutant("shard-mass-beyond-one", "ranks/rank_masses.hpp", SHARDED, "if (kind == RankWeight::mass && all > most)", "if (false)")
mutant("shard-part-below-zero", "ranks/rank_masses.hpp", SHARDED, "if (mass < 0) invalid", "if (false) invalid")

mutant = promise("what fails on one rank is an error on all of them, and none waits")
mutant("failed-rank-gives-zero", "ranks/exchange.hpp", SHARDED, "double number = no_number;", "double number = 0;")
mutant("failed-rank-gives-zeros", "ranks/exchange.hpp", SHARDED, "given_.assign(count, no_number);", "given_.assign(count, 0.0);")
mutant("failed-rank-leaves", "ranks/exchange.hpp", SHARDED, "error_of([&] { ranks_->all_gather(std::span<const double>(), std::span<double>()); });", "")
mutant("rank-without-memory-for-look-ups-leaves", "ranks/sharded.hpp", "tests/law_allocation", "    exchange_.prepare([&] { looked_up_.make_room(tokens.size()); });\n", "")
mutant("rank-without-memory-for-draws-leaves", "ranks/sharded.hpp", "tests/law_allocation", "    exchange_.prepare([&] {\n      const auto draws", "    ([](auto&& f) { f(); })([&] {\n      const auto draws")
mutant("rank-without-room-leaves", "ranks/exchange.hpp", SHARDED, "    prepare([&] {\n      given_.clear();", "    ([](auto&& f) { f(); })([&] {\n      given_.clear();")

mutant = promise("processes give one another their numbers, rank after rank, and all say so where they disagree")
mutant("mpi-ranks-backwards", "ranks/mpi.hpp", "tests/mpi/mpi", "std::ranges::copy(frame(r).subspan(1, first), out)",
       "std::ranges::copy(frame(size_ - 1 - r).subspan(1, first), out)")
mutant("mpi-counts-believed", "ranks/mpi.hpp", "tests/mpi/mpi", "    check_counts();\n", "")

mutant = promise("what is summed over rows that are spread over ranks takes one number, and is the whole rows'")
mutant("spread-sums-token-by-token", "rows/read/segments.hpp", SHARDED, "if constexpr (SpreadRow<P> || SpreadRow<Q>) {", "if constexpr (false) {")
mutant("spread-part-normalised-alone", "ranks/sharded.hpp", SHARDED, "has_mass(i) ? share(i) : 0.0);", "has_mass(i) ? 1.0 : 0.0);")
mutant("spread-part-unshifted", "ranks/rank_part.hpp", SHARDED, "row_.segment(columns_.first + start, n)", "row_.segment(start, n)")
mutant("spread-part-of-a-shorter-row", "ranks/rank_part.hpp", SHARDED, "std::min<Index>(count, row_.vocab_size() - columns_.first - start)", "count")
mutant("spread-list-unshifted", "ranks/rank_part.hpp", SHARDED, "row_.support(listed_from_ + k) - columns_.first", "row_.support(listed_from_ + k)")
mutant("spread-draw-unshifted", "ranks/rank_draws.hpp", SHARDED, "out.assign({static_cast<double>(mine_.first() + x), row.probability(x)});", "out.assign({static_cast<double>(x), row.probability(x)});")
mutant("spread-sum-ends-with-the-shorter", "rows/read/segments.hpp", SHARDED, "return sum(q.spread()) + f.alone(p, std::max<Index>(start, q.vocab_size()), end);", "return sum(q.spread());")
mutant("spread-residual-drawn-in-pieces", "rows/list.hpp", SHARDED, "std::conditional_t<SpreadRow<Row>, SpreadSampler<Row>,", "std::conditional_t<false, SpreadSampler<Row>,")
REMAINDER = "tests/rows/read/remainder"
mutant("remainder-of-ranks-token-by-token", "rows/read/remainder.hpp", "tests/law_trees_over_ranks", "if constexpr (SpreadRow<P>) {", "if constexpr (false) {")
mutant("remainder-of-ranks-unshifted", "rows/read/remainder.hpp", REMAINDER, "visit(factor, part(row));", "visit(factor, row);")
mutant("remainder-of-ranks-unnormalised", "rows/read/remainder.hpp", REMAINDER, "(p, {taken_, part}, mass_);", "(p, {taken_, part}, 1.0);")

mutant = promise("what is left of a row without multiples of others is a row")
mutant("remainder-below-zero-summed", "rows/read/remainder.hpp", REMAINDER, "return (rest < 0).select(0.0, rest);", "return rest;")
mutant("remainder-of-a-whole-row", "rows/read/remainder.hpp", REMAINDER, "add_stretch(q, -factor, start, rest);", "")

mutant = promise("a mapped row has the draft's probabilities under the target's ids; a map is one to one")
MAPPED = "tests/rows/kinds/mapped"
mutant("map-of-two-to-one", "rows/kinds/mapped.hpp", MAPPED, "if (partner != none)", "if (false)")
mutant("map-beyond-the-target", "rows/kinds/mapped.hpp", MAPPED, "if (to[d] < 0 || to[d] >= vocab_size)", "if (to[d] > vocab_size)")
mutant("mapped-draw-unmapped", "rows/kinds/mapped.hpp", MAPPED, "x = TokenMap::at(map->to, d);", "x = TokenMap::at(map->to, d) == TokenMap::none ? TokenMap::none : d;")
mutant("mapped-draw-of-nobody", "rows/kinds/mapped.hpp", MAPPED, "if (x == TokenMap::none)\n        detail", "if (false)\n        detail")
mutant("mapped-look-up-unmapped", "rows/kinds/mapped.hpp", MAPPED, "d == TokenMap::none ? 0.0 : specdec::probability(row_, d)", "d == TokenMap::none ? 0.0 : specdec::probability(row_, x)")
mutant("mapped-confidence-of-its-own-id", "rows/kinds/mapped.hpp", MAPPED, "return detail::largest_probability(row_);", "return specdec::probability(row_, 0);")
mutant("mapped-segments-from-0", "rows/kinds/mapped.hpp", MAPPED, "probability(static_cast<Token>(start + i))", "probability(static_cast<Token>(i))")

mutant = promise("a dead end fails the texts that reach it, and no others")
mutant("dead-end-gives-its-mass-to-siblings", "verify/sibling_residual.hpp", "tests/law_dead_ends", "if (mass_[node] == 0 && is_dead_end(p)) mass_[node] = before;", "")
mutant("dead-end-lost-in-a-proof", "testing/enumerator.hpp", "tests/law_dead_ends", "(lost == 0 || specdec::detail::is_dead_end(p))", "lost == 0")
mutant("dead-end-shortens-a-fixed-draft", "draft/strategies/line.hpp", "tests/law_dead_ends", "if (!fixed_) return end();", "return end();")
mutant("dead-end-of-a-tree-drawn-from", "draft/strategies/tree.hpp", "tests/law_dead_ends", "if (count < 1 || ends_at(q)) return;", "if (count < 1) return;")
mutant("dead-end-that-is-only-proposed-ends-a-search", "search/searching_model.hpp", "tests/law_dead_ends", "dead_end = found.empty();", 'dead_end = found.empty(); if (dead_end) invalid_distribution("no token");')
mutant("dead-end-that-a-search-keeps", "search/beam_search.hpp", "tests/law_dead_ends", "if (!beam.stopped) target_.check_node(beam.node);", "")
mutant("row-after-a-stop-token-asked-for", "loop/feed_buffer.hpp", "tests/law_dead_ends", "if (above < 0 || ends(k, parent)) {", "if (above < 0) {")
mutant("row-after-a-stop-string-asked-for", "loop/text.hpp", "tests/law_dead_ends", "return cut.stop != StopReason::length;", "return cut.stop == StopReason::stop_token;")
mutant("row-after-the-budget-asked-for", "loop/text.hpp", "tests/loop/step", "    if (between + 1 >= remaining()) return true;\n", "    (void)between;\n")
mutant("stop-string-sought-from-another-branch", "loop/step_base.hpp", "tests/law_dead_ends", "searched_[static_cast<std::size_t>(parent)]);", "searched_[static_cast<std::size_t>(k - 1)]);")
mutant("dead-end-shortens-a-fixed-tree", "draft/strategies/tree.hpp", "tests/law_dead_ends", "if (!uniform || !after_.add_uniform(q)) after_.add(q);", "after_.add(q);")
mutant("dead-end-shortens-a-fixed-second-trunk", "draft/strategies/spares.hpp", "tests/law_dead_ends", "const bool uniform = dead_end && second_after_.add_uniform(q);", "const bool uniform = false;")
mutant("dead-end-in-a-cascade-is-an-error", "loop/cascade_drafter.hpp", "tests/law_dead_ends", "return is_dead_end(row) ? chance_->draw(UniformRow(row.vocab_size()), place) : chance_->draw(row, place);", "return chance_->draw(row, place);")
mutant("dead-end-in-a-cascade-raced-for", "loop/cascade_drafter.hpp", "tests/law_dead_ends", "if (!is_dead_end(p)) return chance_->race(w, p, q...);", "return chance_->race(w, p, q...);")
mutant("dead-end-in-a-cascade-drops-a-drawn-token", "loop/cascade_drafter.hpp", "tests/law_dead_ends", "std::min(*dead_end, recorded->size());", "std::min(*dead_end, std::max<Index>(recorded->size() - 1, 0));")
mutant("dead-end-in-a-cascade-reported", "loop/cascade_drafter.hpp", "tests/law_dead_ends", "if (!ends || !recorded->add_uniform(row)) recorded->add(row);", "recorded->add(row);")
mutant("dead-end-over-ranks-of-logits", "ranks/rank_masses.hpp", "tests/ranks/sharded", "else if (w == -infinity) mass = 0;", "else if (false) mass = 0;")
mutant("dead-end-over-ranks-drawn-ahead", "ranks/sharded.hpp", "tests/ranks/sharded", "if (is_dead_end(i)) return;", "")
mutant("dead-end-over-ranks-cut", "ranks/steps_over_ranks.hpp", "tests/ranks/chain_over_ranks", "left_.dead_ends[at(i)] = told.largest(i, 0) == none ? 1 : 0;", "left_.dead_ends[at(i)] = told.largest(i, 0) == none ? 0 : 0;")
mutant("dead-end-of-a-list-of-logits", "rows/kinds/list_row.hpp", "tests/rows/kinds/list_row", "      largest_ = -1;  // a dead end", "      // a dead end")
mutant("dead-end-of-nan", "rows/read/dead_end.hpp", "tests/rows/read/dead_end", "zeros = zeros && (p.array() == 0).all();", "zeros = zeros && !(p.array() > 0).any();")
mutant("dead-end-of-one-stretch", "rows/read/dead_end.hpp", "tests/rows/read/dead_end", "          return false;", "          return false; else return true;")
