"""Mutants of logits, and what is done to a target's rows before a token is drawn from them."""

from mutants import promise

mutant = promise("logits are a distribution at their temperature, above their cut")
mutant("chain-backwards", "sample/chain.hpp", "tests/sample/chain",
       "((row = step(row)), ...);", "int last = 0; (last = ... = ((void)(row = step(row)), 0));")
mutant("temperature-infinite", "sample/steps/temperature.hpp", "tests/sample/steps/temperature",
       "t >= 0 && t <= std::numeric_limits<double>::max()", "t >= 0")
mutant("temperature-that-forgets-the-row", "sample/steps/temperature.hpp", "tests/sample/steps/temperature",
       "return row.tempered(t_);", "return t_ == 1 ? row : row.tempered(t_ / row.temperature());")
mutant("logits-temperature-upside-down", "rows/kinds/logits_row.hpp", "tests/rows/kinds/logits_row",
       "inverse_temperature_(std::max<double>(1 / temperature,", "inverse_temperature_(std::max<double>(temperature,")
mutant("logits-below-cut", "rows/kinds/logits_row.hpp", "tests/rows/kinds/logits_row", "if (l < cut_) return 0;", "")
mutant("logits-sums-not-rescaled", "rows/kinds/logits_row.hpp", "tests/rows/kinds/logits_row",
       "sums_[s] *= static_cast<Scalar>(factor);", "(void)s;")
mutant("logits-normaliser-upside-down", "rows/kinds/logits_row.hpp", "tests/rows/kinds/logits_row",
       "inverse_temperature_ - normaliser.value)", "inverse_temperature_ + normaliser.value)")
mutant("logits-normaliser-beyond-numbers", "rows/kinds/logits_row.hpp", "tests/rows/kinds/logits_row",
       "static_cast<Scalar>(held ? log_total : 0)", "static_cast<Scalar>(log_total)")
mutant("logits-any-temperature", "rows/kinds/logits_row.hpp", "tests/rows/kinds/logits_row", "if (!(temperature >= 0)) detail", "if (false) detail")
mutant("top-k-one-short", "sample/steps/top_k.hpp", "tests/sample/steps/top_k",
       "static_cast<double>(k_))", "static_cast<double>(k_ - 1))")
mutant("top-p-less", "sample/steps/top_p.hpp", "tests/sample/steps/top_p", "std::max(p_ * total,", "std::max(0.99 * p_ * total,")
mutant("top-p-of-nothing", "sample/steps/top_p.hpp", "tests/sample/steps/top_p",
       "std::max(p_ * total, std::numeric_limits<double>::min())", "p_ * total")
mutant("min-p-without-temperature", "sample/steps/min_p.hpp", "tests/sample/steps/min_p",
       "temperature * std::log(p_)", "std::log(p_)")
mutant("hook-context-too-long", "sample/hooked_context.hpp", "tests/sample/processed_model",
       "static_cast<std::size_t>(length_ - rows + 1 + i)", "static_cast<std::size_t>(length_ + 0 * (rows + i))")
mutant("hook-context-not-rolled-back", "model/fed_texts.hpp", "tests/sample/processed_model",
       "if (!found_tree(k)) text.truncate(feeds[k].from);", "")
mutant("hook-line-stays-in-model", "model/fed_texts.hpp", "tests/sample/processed_model",
       "if (!found_tree(k)) model.keep(feeds[k].sequence, feeds[k].from);", "")

mutant = promise("a processed model copies every row that a hook may change")
mutant("processed-rows-do-not-grow", "sample/processed_model.hpp", "tests/sample/processed_model",
       "if (output_.rows() < rows || output_.cols() != columns)",
       "if (output_.cols() != columns)")

mutant = promise("a tree passes through a processed model, whose hook sees the way to each token")
mutant("hook-way-backwards", "sample/hooked_context.hpp", "tests/sample/processed_model",
       "std::reverse(tokens_.begin() + length_, tokens_.end());", "")
mutant("hook-way-stays-in-context", "sample/hooked_context.hpp", "tests/sample/processed_model",
       "    tokens_.resize(static_cast<std::size_t>(length_));\n    for (Index node = tree_", "    for (Index node = tree_")
mutant("hook-way-stays-in-line", "sample/hooked_context.hpp", "tests/sample/processed_model",
       "    tokens_.resize(static_cast<std::size_t>(length_));\n    append(", "    append(")
mutant("hook-row-of-first-tokens", "sample/hooked_context.hpp", "tests/sample/processed_model",
       "tree_.size() - rows + i", "i")
mutant("hook-tree-not-rolled-back", "model/fed_texts.hpp", "tests/sample/processed_model",
       "text.forget_from(before_[k].nodes);", "")
mutant("hook-tree-lost-tokens-uncounted", "model/wrapped_tree.hpp", "tests/sample/processed_model",
       "{ cached_ += tokens; }", "{ cached_ = size() + 0 * tokens; }")
mutant("hook-tree-not-kept", "sample/hooked_context.hpp", "tests/sample/processed_model",
       "for (const Index node : path) tokens_.push_back(tree_.token(node));", "")
mutant("hook-tree-kept-by-own-number", "model/fed_texts.hpp", "tests/sample/processed_model",
       "model.keep(sequence, text->tree().of_model(path));", "model.keep(sequence, path);")
mutant("hook-tree-left-open", "sample/hooked_context.hpp", "tests/sample/processed_model",
       "length_ = std::clamp<Index>(length, 0, length_);\n    tree_.clear();", "length_ = std::clamp<Index>(length, 0, length_);")

MODEL, STEPS, TEXTS = "sample/processed_model.hpp", "sample/steps_of_rows.hpp", "sample/texts_of_model.hpp"
TEXTS_TEST = "tests/sample/texts_of_model"

mutant = promise("a processed batch has each row by its own sequence's chain, and loses no context to bad rows")
mutant("batch-chain-of-first-row", STEPS, TEXTS_TEST, "steps_[static_cast<std::size_t>(i)])", "steps_[0 * static_cast<std::size_t>(i)])")
mutant("batch-chain-once-a-feed", STEPS, TEXTS_TEST, "for (Index i = 0; i < feed.rows; ++i) steps_", "steps_")
mutant("batch-chains-pile-up", STEPS, TEXTS_TEST, "    steps_.clear();\n", "")
mutant("batch-no-rows-of-a-width", "sample/model_logits.hpp", TEXTS_TEST, "!is_logit_columns<Logits> && rows > 0 && logits.cols()", "!is_logit_columns<Logits> && logits.cols()")
mutant("batch-chain-asked-for-nothing", STEPS, TEXTS_TEST, "if (feed.rows < 1) continue;", "")
mutant("batch-bad-rows-taken-in", MODEL, TEXTS_TEST,
       "for (const BatchFeed& feed : feeds) this->inner().keep(feed.sequence, feed.from);", ";")
mutant("batch-shape-unchecked", MODEL, TEXTS_TEST, "detail::check_shape(logits, detail::rows_of(feeds), this->vocab_size());", "(void)logits;")
mutant("batch-tree-not-passed-on", "model/fed_texts.hpp", TEXTS_TEST, "if (text == nullptr) return model.keep(sequence, path);", "if (text == nullptr) return;")
mutant("batch-release-not-passed-on", "model/fed_texts.hpp", TEXTS_TEST, "    model.release(sequence);\n", "    (void)model;\n")

mutant = promise("a wrapper takes a model for one text as a batch of one")
mutant("feeds-of-one-context-uncounted", "model/feeds.hpp", "tests/sample/processed_model", "    cached_ += std::ssize(path);\n", "")
mutant("feeds-of-one-context-not-cut", "model/feeds.hpp", "tests/sample/processed_model",
       "    cached_ = std::clamp<Index>(length, 0, cached_);\n", "")
mutant("feeds-of-one-tree-as-a-line", "model/feeds.hpp", "tests/sample/processed_model",
       "if (!feed.parents.empty()) return model_.forward(feed.tokens, feed.parents, rows);", "")

mutant = promise("min-p keeps the tokens with p(x) >= min_p · max p, no others")
mutant("min-p-rounded-down", "sample/steps/min_p.hpp", "tests/sample/steps/min_p",
       "static_cast<double>(cut) < exact ? std", "static_cast<double>(cut) < exact - 1e9 ? std")

mutant = promise("the cut of a row is the largest above which tokens weigh enough")
mutant("threshold-target-rounded-down", "sample/threshold/threshold.hpp", "tests/sample/threshold/threshold tests/sample/steps/top_k tests/sample/steps/top_p",
       "std::round((target - above) / unit)", "std::floor((target - above) / unit - 1)")
mutant("threshold-above-forgotten", "sample/threshold/threshold.hpp", "tests/sample/threshold/threshold tests/sample/steps/top_k",
       "if (select(target, gathered.above)) return true;", "if (select(target, 0)) return true;")
mutant("gather-infinity-is-a-logit", "sample/threshold/gather.hpp", "tests/sample/threshold/gather tests/sample/threshold/threshold",
       "bad |= static_cast<unsigned>(!(logits[i] < infinity));", "bad |= static_cast<unsigned>(logits[i] != logits[i]);")
mutant("gather-copy-without-end", "sample/threshold/gather.hpp", "tests/sample/threshold/gather tests/sample/threshold/threshold tests/sample/steps/top_k",
       "std::fill(copy.begin() + count, copy.end(), -std::numeric_limits<Scalar>::infinity());", "")
mutant("threshold-overflow-unseen", "sample/threshold/threshold.hpp", "tests/sample/threshold/threshold tests/sample/steps/top_k",
       "    if (overflow_) {\n      open_.high = bracket.high;\n      return false;\n    }\n    if (select", "    if (select")
mutant("threshold-mass-of-another-unit", "sample/threshold/threshold.hpp", "tests/sample/steps/top_k",
       "near_.at_least(open_.low)), -TokenMass<Scalar>::bits)", "near_.at_least(open_.low)), 1 - TokenMass<Scalar>::bits)")

mutant("gather-beyond-its-memory", "sample/threshold/gather.hpp", "tests/sample/threshold/gather",
       "if (out.overflow) return;", "if (out.overflow) { out.above = 0; return; }")
mutant("gather-edge-left-out", "sample/threshold/gather.hpp", "tests/sample/threshold/gather", "both(logits[i] >= low, logits[i] <= high)", "both(logits[i] >= low, logits[i] < high)")
mutant("sample-of-one-place", "sample/threshold/row_sample.hpp", "tests/sample/threshold/row_sample", "row_[i * step + step / 2]", "row_[i + step / 2]")
mutant("sample-below-the-floor", "sample/threshold/row_sample.hpp", "tests/sample/threshold/row_sample", "both(l >= floor, ", "both(l >= -1e30f, ")
mutant("sample-without-a-margin", "sample/threshold/row_sample.hpp", "tests/sample/threshold/row_sample", "wish.deviations * standard_deviation(", "0 * standard_deviation(")
mutant("sample-few-by-exponentials", "sample/threshold/row_sample.hpp", "tests/sample/threshold/row_sample", "if (expected_size(range) > room) {", "if (true) {")
mutant("units-of-nan", "sample/threshold/token_weight.hpp", "tests/sample/threshold/token_weight tests/sample/threshold/row_sample",
       "return weight > 1 ? static_cast<std::uint64_t>(std::min(weight, 0x1p62)) : 1;", "return static_cast<std::uint64_t>(std::max(weight, 1.0));")
mutant("mass-at-no-temperature", "sample/steps/top_k.hpp", "tests/sample/steps/top_k",
       "search.mass(row.inverse_temperature())", "search.mass(static_cast<Scalar>(1 / row.temperature()))")
mutant("top-p-of-any-log-sum-exp", "sample/steps/top_p.hpp", "tests/sample/steps/top_p", "    check_normaliser(e.shift, total);\n", "")
mutant("temperature-beyond-numbers", "rows/kinds/logits_row.hpp", "tests/sample/steps/temperature",
       "std::min(temperature_ * factor, std::numeric_limits<double>::max())", "temperature_ * factor")

mutant = promise("numbers with weights are counted and cut exactly")
mutant("weighed-above", "kernels/keyed_weights.hpp", "tests/sample/threshold/weighed",
       "static_cast<Weight>(keys[start + i] >= cut)", "static_cast<Weight>(keys[start + i] > cut)")
mutant("weighed-low-halves", "kernels/keyed_weights.hpp", "tests/sample/threshold/weighed",
       "<< half) + low_sum;", "<< half);")
mutant("weighed-short-of-target", "sample/threshold/weighed.hpp", "tests/sample/threshold/weighed",
       "if (at_least(middle) >= target) low = middle;", "if (at_least(middle) > target) low = middle;")
mutant("weighed-rest-of-all", "sample/threshold/weighed.hpp", "tests/sample/threshold/weighed",
       "return target > above ? target - above : 0;", "return target;")
mutant("weighed-rank-one-off", "sample/threshold/weighed.hpp", "tests/sample/threshold/weighed", ">= rank) low = middle;", "> rank) low = middle;")
mutant("weighed-after-the-end", "sample/threshold/weighed.hpp", "tests/sample/threshold/weighed", "!= 0, start + i < size);", "!= 0, true);")

mutant = promise("flags pick what is flagged, each number once")
mutant("flags-of-one-row", "sample/threshold/flags.hpp", "tests/sample/threshold/flags",
       "return bit % rows * row_size + bit / rows;", "return bit / rows;")
mutant("flags-transposed", "sample/threshold/flags.hpp", "tests/sample/threshold/flags",
       "return bit % rows * row_size + bit / rows;", "return bit % row_size * rows + bit / row_size;")
mutant("flags-few-at-a-time", "sample/threshold/flags.hpp", "tests/sample/threshold/flags",
       "for (std::size_t k = first + excess; k < last; ++k) put(k, byte + take_first(bits));", "")
mutant("flags-either", "sample/threshold/flags.hpp", "tests/sample/threshold/flags",
       "static_cast<unsigned>(a) & static_cast<unsigned>(b)", "static_cast<unsigned>(a) | static_cast<unsigned>(b)")

mutant = promise("keys order floating-point numbers, and come back")
mutant("keys-of-bits", "sample/threshold/ordered_key.hpp", "tests/sample/threshold/ordered_key",
       "return bits >= 0 ? bits : std::numeric_limits<OrderedKey<F>>::min() - bits;", "return bits;")
mutant("keys-complemented", "sample/threshold/ordered_key.hpp", "tests/sample/threshold/ordered_key",
       "return bits >= 0 ? bits : std::numeric_limits<OrderedKey<F>>::min() - bits;",
       "return bits >= 0 ? bits : std::numeric_limits<OrderedKey<F>>::min() - bits - 1;")

mutant = promise("tokens weigh one, or their exponentials")
mutant("weight-of-no-token", "sample/threshold/token_weight.hpp", "tests/sample/threshold/token_weight",
       "n += logits[i] >= cut ? 1 : 0;", "n += 1;")
mutant("weight-above-or-equal", "kernels/reductions.hpp", "tests/sample/threshold/token_weight",
       "keys[start + i] < threshold ? Scalar{0}", "keys[start + i] <= threshold ? Scalar{0}")
mutant("weight-of-the-cut-apart", "sample/threshold/threshold.hpp", "tests/sample/threshold/threshold tests/sample/steps/top_k tests/sample/steps/top_p",
       "from_ordered_key<Scalar>(bracket.high + 1)", "from_ordered_key<Scalar>(bracket.high)")
mutant("weighed-filler-counts", "sample/threshold/weighed.hpp", "tests/sample/threshold/weighed",
       "return filler_counts ? n - (whole_lots() - size) : n;", "return n;")
mutant("weighed-filler-weighs", "sample/threshold/weighed.hpp", "tests/sample/threshold/weighed", "    out.fill_up_weights();\n", "")
mutant("weighed-filler-of-no-key", "sample/threshold/weighed.hpp", "tests/sample/threshold/weighed", "whole_lots(), keys[0]);", "whole_lots(), Key{0});")
mutant("narrowed-above-forgotten", "sample/threshold/weighed.hpp", "tests/sample/threshold/weighed tests/sample/threshold/threshold", "        above += upper;\n", "")
mutant("narrowed-chunk-in-place", "sample/threshold/weighed.hpp", "tests/sample/threshold/weighed", "keys[k] = chunk[i];", "keys[k] = keys[start + i];")
mutant("narrowed-kept-forgotten", "sample/threshold/threshold.hpp", "tests/sample/threshold/threshold", "const std::uint64_t gathered = dropped + (", "const std::uint64_t gathered = (")
mutant("narrowed-equal-numbers", "sample/threshold/threshold.hpp", "tests/sample/threshold/threshold", "const bool weighed = near_.size <= near_.most_weighed;", "const bool weighed = true;")
mutant("narrowed-mass-of-a-part", "sample/threshold/threshold.hpp", "tests/sample/threshold/threshold", "above == 0 && dropped == 0 && weighed", "above == 0 && weighed")
mutant("search-again-by-the-old-unit", "sample/steps/top_p.hpp", "tests/sample/steps/top_p", "    search.weigh_by({e.shift, e.inverse_temperature});\n", "")
mutant("weight-unit-without-temperature", "sample/threshold/token_weight.hpp", "tests/sample/threshold/token_weight",
       "(static_cast<double>(top) - static_cast<double>(shift)) *\n                               static_cast<double>(inverse_temperature)),",
       "(static_cast<double>(top) - static_cast<double>(shift)) * 1.0),")

mutant = promise("a hook in a batch sees each sequence's own context, and fails its own sequence alone")
mutant("batch-hook-not-rolled-back", MODEL, TEXTS_TEST, "[&] { texts_.leave(feeds, this->inner()); }", "[] {}")
mutant("batch-hook-half-entered", "model/fed_texts.hpp", TEXTS_TEST, "[&] { leave(feeds.first(k)); }", "[] {}")
mutant("batch-hook-begins-anywhere", "model/feeds.hpp", TEXTS_TEST, "if (feed.from != length)", "if (false)")
mutant("batch-hook-keeps-all", "model/fed_texts.hpp", TEXTS_TEST, "if (Text* const text = texts_.find(sequence)) text->truncate(length);", "")
mutant("batch-hook-remembers-released", "model/fed_texts.hpp", TEXTS_TEST, "    model.release(sequence);\n    texts_.erase(sequence);", "    model.release(sequence);")
mutant("batch-hook-row-of-another", TEXTS, TEXTS_TEST, "      first += feed.rows;\n", "")
mutant("batch-hook-fails-for-all", "sample/row_errors.hpp", TEXTS_TEST, "    rethrow_error_of(errors_, i);\n    return", "    rethrow_error_of(errors_, 0);\n    return")
mutant("batch-hook-tree-untaken", "model/fed_texts.hpp", TEXTS_TEST, "if (!feed.parents.empty()) texts_.at(feed.sequence).tree().taken(std::ssize(feed.tokens));", "{}")
mutant("batch-hook-way-not-kept", "model/fed_texts.hpp", TEXTS_TEST, "    text->keep(path);\n", "")

PROCESSED, PROCESSED_TEST = "sample/processed_text.hpp", "tests/sample/processed_text"
mutant = promise("a processor with state makes of a row what it makes of it from scratch, over drafts, trees and failures")
mutant("processor-refuses-unheard", "sample/text_processor.hpp", "tests/sample/processed_text tests/draft/forced_tokens",
       "return processor.push(x);", "processor.push(x);\n    return true;")
mutant("processed-draft-not-taken-back", PROCESSED, PROCESSED_TEST, "if (seen < seen_) processor_.pop(seen_ - seen);", "")
mutant("processed-row-one-early", PROCESSED, PROCESSED_TEST, "if (taken < first) continue;", "if (taken <= first) continue;")
mutant("processed-after-what-is-refused", PROCESSED, PROCESSED_TEST, "check_forbidden(logits(taken - first - 1), x);\n          break;", "check_forbidden(logits(taken - first - 1), x);")
mutant("processed-refused-text-keep-drafting", PROCESSED, PROCESSED_TEST, "if (taken <= first) refuse_text(x, seen_ + taken);", "if (taken <= first) break;")
mutant("processed-refused-root-keep-drafting", PROCESSED, PROCESSED_TEST, "if (new_tree_ && node <= first) refuse_text(x, seen_ + node);", "")
mutant("processed-refused-node-forbidden-nowhere", PROCESSED, PROCESSED_TEST, "if (tree_.parent(node) >= first)", "if (tree_.parent(node) >= first && false)")
mutant("processed-failure-stays", PROCESSED, PROCESSED_TEST, "      if (taken > 0) processor_.pop(taken);\n", "")
mutant("processed-failed-row-stays", PROCESSED, PROCESSED_TEST, "[&] { processor_.pop(1); }", "[] {}")
mutant("processed-way-not-left", PROCESSED, PROCESSED_TEST, "leave(common_length(way_, entered_));", "")
mutant("processed-branch-from-the-root", PROCESSED, PROCESSED_TEST, "    leave(common);\n    seen_ += common;", "    leave(common);\n    seen_ += 0;")
mutant("processed-path-not-pending", PROCESSED, PROCESSED_TEST, "      pending_.push_back(tree_.token(node));", "      if (node < 1) pending_.push_back(tree_.token(node));")
mutant("processed-failed-tree-entered", PROCESSED, PROCESSED_TEST, "    leave(std::lower_bound(entered_.begin(), entered_.end(), node) - entered_.begin());\n", "")
mutant("processed-tree-before-its-text", PROCESSED, PROCESSED_TEST, "if (!pending_.empty()) go_through_line(0, logits);", "")
mutant("processed-refused-node-entered", PROCESSED, PROCESSED_TEST, "refused_[static_cast<std::size_t>(node)] == 1 ||", "")
mutant("processed-break-not-noted", PROCESSED, PROCESSED_TEST, "    broken_off_ = !pending_.empty();\n", "")
mutant("processed-fork-anywhere", PROCESSED, PROCESSED_TEST, "fork_ = seen > asked_from_ ? seen : -1;", "fork_ = seen;")
mutant("processed-fork-nowhere", PROCESSED, PROCESSED_TEST, "if (first == 0 && taken == 0 && seen_ == fork_) break;", "")
mutant("processed-break-not-forgotten", PROCESSED, PROCESSED_TEST, "    if (pending_.empty()) broken_off_ = false;\n", "")
mutant("batch-processor-of-a-feed-refused", "model/fed_texts.hpp", TEXTS_TEST, "[&] { texts_.erase(sequence); }", "[] {}")
mutant("processed-rows-unchecked", PROCESSED, PROCESSED_TEST, "if (rows > added_)", "if (false)")
mutant("batch-processor-fails-for-one-row", "sample/row_errors.hpp", TEXTS_TEST,
       "std::fill_n(errors_.begin() + first, count, error);", "errors_[static_cast<std::size_t>(first + 0 * count)] = error;")
mutant("batch-processor-of-a-failed-call", "model/fed_texts.hpp", TEXTS_TEST, "before_[k].begins = known == nullptr;", "before_[k].begins = false;")
mutant("batch-processor-of-another", TEXTS, TEXTS_TEST, "else return given(sequence);", "else return given(0 * sequence);")

mutant = promise("processors are what they are said to be, forward and back")
mutant("repetition-of-negatives", "sample/processors/penalties.hpp", "tests/sample/processors/penalties", "logit > 0 ? logit / theta : logit * theta", "logit / theta")
mutant("presence-by-count", "sample/processors/penalties.hpp", "tests/sample/processors/penalties", "every_time ? price_ * static_cast<double>(count) : price_;", "price_ * static_cast<double>(count);")
mutant("penalty-beyond-numbers", "sample/processors/finite_logit.hpp", "tests/sample/processors/penalties", "std::clamp(x, static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max()))", "x")
mutant("penalty-to-infinity", "sample/processors/finite_logit.hpp", "tests/sample/processors/penalties", "std::isfinite(logit) ? std::clamp(changed, Limits::lowest(), Limits::max()) : changed", "changed")
mutant("penalty-makes-forbidden-finite", "sample/processors/finite_logit.hpp", "tests/sample/processors/penalties", "std::isfinite(logit) ? std::clamp(changed, Limits::lowest(), Limits::max()) : changed", "std::clamp(changed, Limits::lowest(), Limits::max())")
mutant("counts-last-not-moved", "sample/processors/token_counts.hpp", "tests/sample/processors/penalties", "    slots_[find(tokens_[last])] = static_cast<Index>(place);\n", "", endless=True)
mutant("frequency-once", "sample/processors/penalties.hpp", "tests/sample/processors/penalties", "every_time ? price_ * static_cast<double>(count) : price_;", "price_;")
mutant("token-beyond-the-row", "sample/partial_logits.hpp", "tests/sample/partial_logits", "k >= 0 && k < size_ ? logits_ + k : nullptr", "k < size_ ? logits_ + k : nullptr")
mutant("counts-list-full", "sample/processors/token_counts.hpp", "tests/sample/processors/penalties", "if (distinct_ < counts_.size()) return;", "if (distinct_ + 1 < slots_.size()) return;")
mutant("counts-window-too-long", "sample/processors/token_counts.hpp", "tests/sample/processors/penalties", "if (size() > window_) drop(", "if (size() > window_ + 1) drop(")
mutant("counts-window-not-taken-back", "sample/processors/token_counts.hpp", "tests/sample/processors/penalties", "      if (size() > window_) add(leaves_window(size()));\n", "")
mutant("counts-gap-not-closed", "sample/processors/token_counts.hpp", "tests/sample/processors/penalties", "if (from_home < from_gap) continue;", "continue;", endless=True)
mutant("counts-moved-before-their-home", "sample/processors/token_counts.hpp", "tests/sample/processors/penalties", "if (from_home < from_gap) continue;", "")
mutant("ngram-by-hash-alone", "sample/processors/no_repeat_ngrams.hpp", "tests/sample/processors/no_repeat_ngrams", " && std::equal(begun.begin(), begun.end(), ngram_before(end).begin()))", ")")
mutant("ngram-latest-alone", "sample/processors/no_repeat_ngrams.hpp", "tests/sample/processors/no_repeat_ngrams", "previous_.back() = std::exchange(latest, end);", "latest = end;")
mutant("ngram-not-taken-back", "sample/processors/no_repeat_ngrams.hpp", "tests/sample/processors/no_repeat_ngrams", "      if (last >= n_ - 1) latest_[slot(ngram_before(last))] = previous_[static_cast<std::size_t>(last)];\n", "", endless=True)
mutant("ngram-list-of-a-smaller-table", "sample/processors/no_repeat_ngrams.hpp", "tests/sample/processors/no_repeat_ngrams", "for (Index end = 0; end < size(); ++end) enter(end);", "for (Index end = 0; end < size(); ++end) previous_.push_back(-1);")
mutant("bad-word-after-its-first-token", "sample/processors/bad_words.hpp", "tests/sample/processors/bad_words", "text_.end() - before)", "text_.end() - before, [](Token, Token) { return true; })")
mutant("bad-word-not-taken-back", "sample/processors/bad_words.hpp", "tests/sample/processors/bad_words", "text_.resize(text_.size() - static_cast<std::size_t>(n));", "if (n > 1) text_.resize(text_.size() - static_cast<std::size_t>(n));")
mutant("bad-word-longer-than-the-text", "sample/processors/bad_words.hpp", "tests/sample/processors/bad_words", "before <= std::ssize(text_)", "before < std::ssize(text_)")
mutant("budget-one-too-many", "sample/processors/reasoning_budget.hpp", "tests/sample/processors/reasoning_budget", "if (state.used < tokens_) return;", "if (state.used <= tokens_) return;")
mutant("budget-not-taken-back", "sample/processors/reasoning_budget.hpp", "tests/sample/processors/reasoning_budget", "states_.resize(states_.size() - static_cast<std::size_t>(n));", "if (n > 1) states_.resize(states_.size() - static_cast<std::size_t>(n));")
mutant("budget-end-unseen", "sample/processors/reasoning_budget.hpp", "tests/sample/processors/reasoning_budget", "if (state.matched == end_.size()) return {};", "if (state.matched == end_.size()) state.matched = 0;")
mutant("budget-end-begun-again", "sample/processors/reasoning_budget.hpp", "tests/sample/processors/reasoning_budget", "    state.forced = forced_.next(state.forced, x);\n", "    if (state.used == tokens_) state.forced = forced_.next(state.forced, x);\n")
mutant("budget-matches-without-falling-back", "sample/processors/reasoning_budget.hpp", "tests/sample/processors/reasoning_budget", "state = shorter_[at(state - 1)];", "state = 0;")
mutant("list-half-pushed", "sample/processors.hpp", "tests/sample/processors", "      if (!pushed) undo();\n", "")
mutant("list-half-thrown", "sample/processors.hpp", "tests/sample/processors", "return push_from<k + 1>(x); }, undo);", "return push_from<k + 1>(x); }, [] {});")
mutant("prompt-applied-to", "sample/processors/after_prompt.hpp", "tests/sample/processors", "if (length_ >= prompt_) processor_.apply(logits);", "processor_.apply(logits);")
mutant("prompt-one-too-short", "sample/processors/after_prompt.hpp", "tests/sample/processors", "if (length_ >= prompt_ && !push_token", "if (length_ + 1 >= prompt_ && !push_token")
mutant("prompt-taken-back", "sample/processors/after_prompt.hpp", "tests/sample/processors", "std::min(n, std::max<Index>(length_ - prompt_, 0))", "n")
mutant("length-one-less", "sample/processors/min_length.hpp", "tests/sample/processors", "if (length_ >= n_) return;", "if (length_ >= n_ - 1) return;")
mutant("bias-unchecked", "sample/processors/logit_bias.hpp", "tests/sample/processors", "if (!(std::isfinite(each.bias) || each.bias < 0))", "if (false)")
mutant("mask-first-word-alone", "sample/processors/grammar.hpp", "tests/sample/processors/grammar", "k < known; k += count)", "k < std::min<Index>(known, 32); k += count)")
mutant("mask-not-cleared", "sample/processors/grammar.hpp", "tests/sample/processors/grammar", "mask_.assign(static_cast<std::size_t>((tokens + 31) / 32), 0);", "mask_.resize(static_cast<std::size_t>((tokens + 31) / 32), 0);")
mutant("mask-of-the-row", "sample/processors/grammar.hpp", "tests/sample/processors/grammar", "static_cast<std::size_t>((tokens + 31) / 32)", "static_cast<std::size_t>((row.vocab_size() + 31) / 32)")
mutant("mask-beyond-the-row", "sample/processors/grammar.hpp", "tests/sample/processors/grammar", "std::clamp<Index>(tokens - row.first(), 0, columns.size());", "tokens - row.first();")
mutant("mask-unknown-tokens-allowed", "sample/processors/grammar.hpp", "tests/sample/processors/grammar", "columns.tail(columns.size() - known).setConstant(-std::numeric_limits<Scalar>::infinity());", "")
mutant("snapshot-written-over", "sample/processors/snapshots.hpp", "tests/sample/processors/grammar", "oldest_ = length - most_ + 1;", "oldest_ = length - most_;")
mutant("snapshot-forgotten", "sample/processors/snapshots.hpp", "tests/sample/processors/grammar", "if (size() >= oldest_) go_back();", "if (size() > oldest_) go_back();")
mutant("snapshot-of-what-failed", "sample/processors/snapshots.hpp", "tests/sample/processors/grammar", "push_token(state_, x); }, undo);", "push_token(state_, x); }, [] {});")
mutant("snapshot-of-what-was-refused", "sample/processors/snapshots.hpp", "tests/sample/processors/grammar", "    if (!pushed) undo();\n", "")
mutant("snapshot-older-than-it-is", "sample/processors/snapshots.hpp", "tests/sample/processors/grammar", "    oldest_ = size();\n", "")

OVER_RANKS = "tests/ranks/chain_over_ranks"
mutant = promise("over ranks steps keep the tokens that they keep of whole rows")
mutant("rank-cut-of-first-row", "ranks/cut_logits.hpp", OVER_RANKS,
       "left_->cuts[k]", "left_->cuts[0 * k]")
mutant("rank-chain-without-temperature-before", "ranks/chain_over_ranks.hpp", OVER_RANKS,
       "Taken taken(columns, vocab_size, temperature,", "Taken taken(columns, vocab_size, 1.0,")
mutant("rank-chain-without-temperature-of-steps", "ranks/steps_over_ranks.hpp", OVER_RANKS,
       "temper(i, step_of(i).value());", "temper(i, 0 * step_of(i).value() + 1);")
mutant("rank-cut-list-without-the-rest", "ranks/rank_cut_search.hpp", OVER_RANKS, "double weight = number(r, 1);", "double weight = 0;")
mutant("rank-cut-ends-without-the-rest", "ranks/rank_cut_search.hpp", OVER_RANKS, "      weight += number(r, 1);\n", "")
mutant("rank-cut-forgets-the-rest", "ranks/rank_cut_search.hpp", OVER_RANKS, "if (l > high) above_ += weight_(l);", "")
mutant("rank-cut-by-value-alone", "ranks/rank_cut_search.hpp", OVER_RANKS, "round_++ < 3", "true")
mutant("over-ranks-top-k-bracket-too-low", "ranks/steps_over_ranks.hpp", OVER_RANKS, "(k(i) - 1) / exchange_.ranks() + 1", "k(i)")
mutant("over-ranks-top-p-bracket-closed", "ranks/steps_over_ranks.hpp", OVER_RANKS, "i, -told.largest(i, 1),", "i, told.largest(i, 2),")
mutant("over-ranks-top-p-of-the-largest", "ranks/steps_over_ranks.hpp", OVER_RANKS, "return most + std::log(sum);", "return most;")
mutant("over-ranks-entropy-of-parts", "ranks/steps_over_ranks.hpp", OVER_RANKS, "(from(r, i, 1) - log_share)", "from(r, i, 1)")
mutant("over-ranks-entropy-of-one-count", "ranks/steps_over_ranks.hpp", OVER_RANKS, "told.sum(i, 2)", "told.largest(i, 2)")
mutant("over-ranks-sigma-unshifted", "sample/steps/top_n_sigma.hpp", OVER_RANKS, "const double lower = part.largest - largest;", "const double lower = 0;")
mutant("over-ranks-sigma-of-squares-unshifted", "sample/steps/top_n_sigma.hpp", OVER_RANKS, "lower * (2 * part.sum + part.count * lower)", "lower * part.count * lower")
mutant("over-ranks-min-keep-never", "ranks/steps_over_ranks.hpp", OVER_RANKS, "before[first + at(i)] < left_.cuts[at(i)]", "true")
mutant("over-ranks-min-keep-in-another", "ranks/steps_over_ranks.hpp", OVER_RANKS, "const std::size_t first = before.size();", "const std::size_t first = 0 * before.size();")
mutant("over-ranks-cut-lowered", "ranks/steps_over_ranks.hpp", OVER_RANKS, "old = std::max(old, static_cast<double>(cut));", "old = static_cast<double>(cut);")
mutant("over-ranks-searches-made-anew", "ranks/chain_over_ranks.hpp", "tests/law_allocation", "if (!std::holds_alternative<Searches>(searches_)) searches_ =", "searches_ =")
mutant("over-ranks-without-memory-leaves", "ranks/steps_over_ranks.hpp", "tests/law_allocation", "exchange_.prepare([&] {\n      search.make_room", "([](auto&& f) { f(); })([&] {\n      search.make_room")
mutant("over-ranks-nan-unheard", "ranks/steps_over_ranks.hpp", OVER_RANKS, "mine.fill(no_number)", "mine.fill(none)")
mutant("over-ranks-steps-of-the-first-row", "ranks/chain_over_ranks.hpp", "tests/ranks/sharded_model", "return steps[i];", "return steps[0 * i];")
mutant("over-ranks-failed-row-cut", "ranks/steps_over_ranks.hpp", "tests/ranks/processors_over_ranks", "return !left_.errors[at(i)] &&", "return")

SHARDED = "tests/ranks/sharded_model"
mutant = promise("a target spread over ranks writes the target's text")
mutant("sharded-drafts-not-looked-up", "ranks/sharded_model.hpp", SHARDED, "std::max<Index>(feed.rows - 1, 0)", "Index{0}")
mutant("sharded-drafts-of-another-text", "ranks/sharded_model.hpp", SHARDED, "row < 0 ? nowhere : first + row - 1", "row < 0 ? nowhere : row - 1")
mutant("sharded-failure-taken-in", "ranks/sharded_model.hpp", SHARDED, "[&] { texts_.leave(feeds, this->inner()); }", "[] {}")
mutant("sharded-draws-begin-again", "model/fed_texts.hpp", SHARDED, "before_[k].begins = known == nullptr;", "before_[k].begins = known == nullptr || known->length() == 0;")
mutant("sharded-failure-closes-trees", "model/fed_texts.hpp", SHARDED, "if (!found_tree(k)) model.keep", "model.keep")
mutant("sharded-tree-looked-up-after-others", "ranks/sharded_model.hpp", SHARDED, "tree().size() - feed.rows;", "tree().size() - feed.rows - 1;")
mutant("sharded-tree-length-unkept", "ranks/sharded_model.hpp", SHARDED, "      length_ += std::ssize(path);\n", "")
mutant("sharded-tree-failure-taken-in", "ranks/sharded_model.hpp", SHARDED, "void forget_from(Index node) { tree_.forget_from(node); }", "void forget_from(Index) {}")
mutant("sharded-tree-length-uncounted", "model/feeds.hpp", SHARDED, "    cached_ += std::ssize(path);\n", "")
mutant("sharded-steps-left-out", "ranks/sharded_model.hpp", SHARDED, "cuts_(*output_, vocab_size, options_.temperature, steps_)", "cuts_(*output_, vocab_size, 1.0, steps_)")
mutant("sharded-bad-row-fails-all", "ranks/sharded.hpp", SHARDED, "if (!row_by_row_) f();\n    else", "f();\n    if (row_by_row_)")
mutant("sharded-bad-row-unsaid", "ranks/sharded_rows.hpp", SHARDED, "    shards_->check_row(i);\n", "")
mutant("sharded-draws-ahead-by-one-number", "ranks/sharded_model.hpp", SHARDED, "return uniform01(texts_of_rows_[static_cast<std::size_t>(row)]->source);", "return uniform01(texts_of_rows_.front()->source);")
mutant("sharded-draws-never-move-on", "ranks/sharded_model.hpp", SHARDED, "return uniform01(texts_of_rows_[static_cast<std::size_t>(row)]->source);", "auto source = texts_of_rows_[static_cast<std::size_t>(row)]->source;\n      return uniform01(source);")
mutant("sharded-model-fails-alone", "ranks/sharded_model.hpp", "tests/ranks/processors_over_ranks", "      exchange.prepare([&] {\n        output_", "      ([](auto&& f) { f(); })([&] {\n        output_")
mutant("sharded-tree-outlives-rollback", "ranks/sharded_model.hpp", SHARDED, "      length_ = std::clamp<Index>(length, 0, length_);\n      tree_.clear();", "      length_ = std::clamp<Index>(length, 0, length_);")
mutant("sharded-columns-from-the-first", "sample/logit_columns.hpp", SHARDED, "first_(first), errors_(errors) {}", "first_(first * 0), errors_(errors) {}")

OVER_RANKS = "tests/ranks/processors_over_ranks"
mutant = promise("over ranks processors make of a row what they make of the whole, and what fails on one rank fails on all")
mutant("partial-grammar-from-the-first-token", "sample/processors/grammar.hpp", "tests/sample/partial_logits", "const Index x = row.first() + k;", "const Index x = k;")
mutant("partial-grammar-word-from-its-beginning", "sample/processors/grammar.hpp", "tests/sample/partial_logits", "mask_[static_cast<std::size_t>(x / 32)] >> (x % 32)", "mask_[static_cast<std::size_t>(x / 32)]")
mutant("partial-columns-from-the-first", "sample/processed_model.hpp", OVER_RANKS, "return LogitsRef(output_.row(i), first, size);", "return LogitsRef(output_.row(i), 0 * first, size);")
mutant("partial-error-unheard", "sample/logit_columns.hpp", OVER_RANKS, "    detail::rethrow_error_of(errors_, i);\n", "")
mutant("partial-error-of-others-words", "ranks/steps_over_ranks.hpp", OVER_RANKS, "    logits_.row(i);  // throws this rank's own error, if it has one\n", "")

mutant = promise("samplers that keep any set of tokens keep what their definitions keep, in any order")
mutant("dynamic-temperature-of-all-tokens", "sample/steps/dynamic_temperature.hpp", "tests/sample/steps/dynamic_temperature", "TokenCount<Scalar>{}.sum(logits, row.cut())", "TokenCount<Scalar>{}.sum(logits, row.no_cut)")
mutant("dynamic-temperature-below-0", "sample/steps/dynamic_temperature.hpp", "tests/sample/steps/dynamic_temperature", "std::max(t - range, 0.0)", "std::abs(t - range)")
mutant("dynamic-temperature-without-power", "sample/steps/dynamic_temperature.hpp", "tests/sample/steps/dynamic_temperature", "std::pow(share, exponent_)", "share")
mutant("min-keep-never", "sample/steps/min_keep.hpp", "tests/sample/steps/min_keep", "if (!(most.cut() < left.cut())) return left;", "return left;")
mutant("min-keep-only", "sample/steps/min_keep.hpp", "tests/sample/steps/min_keep", "if (!(most.cut() < left.cut())) return left;", "")
mutant("min-keep-without-temperature", "sample/steps/min_keep.hpp", "tests/sample/steps/min_keep", "left.temperature() / row.temperature()", "1")
mutant("typical-short-of-mass", "sample/processors/typical_p.hpp", "tests/sample/processors/typical_p", "target_ = p_ * total", "target_ = 0.9 * p_ * total")
mutant("typical-of-the-largest", "sample/processors/typical_p.hpp", "tests/sample/processors/typical_p", "const double mean = sum / total;", "const double mean = 0 * sum;")
mutant("typical-min-keep-forgotten", "sample/processors/typical_p.hpp", "tests/sample/processors/typical_p",
       "std::max(distance_of_mass(), distance_of_count())", "distance_of_mass()")
mutant("xtc-removes-all-likely", "sample/processors/xtc.hpp", "tests/sample/processors/xtc", "if (row[x] > least)", "if (row[x] >= least && least < 1e300)")
mutant("xtc-min-keep-forgotten", "sample/processors/xtc.hpp", "tests/sample/processors/xtc", "if (left < min_keep_) return;", "")
mutant("xtc-coin-not-taken-back", "sample/processors/xtc.hpp", "tests/sample/processors/xtc", "length_ -= n;", "length_ -= 0 * n;")
mutant("top-n-sigma-of-the-sum", "sample/steps/top_n_sigma.hpp", "tests/sample/steps/top_n_sigma", "squares / count - mean * mean", "squares / count")
mutant("dry-shortest", "sample/processors/dry.hpp", "tests/sample/processors/dry", ": a.second > b.second", ": a.second < b.second")
mutant("dry-over-breakers", "sample/processors/dry.hpp", "tests/sample/processors/dry", "if (longest > 0) return back + 1 - longest;", "")
mutant("dry-breaker-lowered", "sample/processors/dry.hpp", "tests/sample/processors/dry", " && !is_breaker(at(k - 1))", "")
mutant("dry-z-too-far", "sample/processors/dry.hpp", "tests/sample/processors/dry", "std::min(to - k, repeats_[static_cast<std::size_t>(k - from)])", "repeats_[static_cast<std::size_t>(k - from)]")
mutant("applied-step-without-temperature", "sample/processors/applied_step.hpp", "tests/sample/processors/typical_p", "else if (tempered) l", "else if (false) l")
mutant("applied-step-without-cut", "sample/processors/applied_step.hpp", "tests/sample/processors/typical_p", "else if (l < cut) l = none;", "")
