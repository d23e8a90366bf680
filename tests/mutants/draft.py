"""Mutants of drafters and draft lengths."""

from mutants import promise

LENGTHS = "tests/draft/length/draft_length tests/law_draft_length"

mutant = promise("the draft is as long as the policy says, which learns what really happened")
mutant("policy-unchecked", "loop/step_base.hpp", LENGTHS, "if (wanted < 0 || wanted > most)", "if (false)")
mutant("policy-not-told", "loop/sequence.hpp", LENGTHS, "    shared_->length.observe(Base::last());\n", "")
mutant("confidence-after-the-draw", "draft/strategies/line.hpp", LENGTHS,
       "      rows_.add(name);\n",
       "      if (q.probability(tokens_.back()) < 0.4) return tokens_.pop_back(), end();\n      rows_.add(name);\n")
mutant("confidence-ignored", "draft/strategies/line.hpp", LENGTHS, "      if (!keep_drafting(q, i)) return end();\n", "")
mutant("schedule-grows-by-one", "draft/length/draft_length.hpp", LENGTHS, ") + 2", ") + 1")
mutant("schedule-below-one", "draft/length/draft_length.hpp", LENGTHS, "std::max<Index>(1, length_ - 1)", "length_ - 1")
mutant("survival-of-another-rule", "loop/step.hpp", LENGTHS, "if constexpr (tells_survival<V> && !branches) {", "if constexpr (false) {")
mutant("token-survival-unclipped", "verify/token.hpp", "tests/measure/acceptance", "before * std::min(1.0, p / q)", "before * p / q")
mutant("block-survival-clipped-twice", "verify/block.hpp", "tests/measure/acceptance", "std::min(1.0, before * (p / q))", "before * std::min(1.0, p / q)")
mutant("expectations-of-costly-rows", "loop/step_base.hpp", "tests/measure/acceptance", "if (!drafted.all_looked_up()) return false;", "")
mutant("rate-without-covariance", "measure/acceptance.hpp", "tests/measure/acceptance", "- 2 * alpha * product_ ", "")
OPTIMAL = "tests/draft/length/cost_optimal_length"
mutant("length-of-the-latest-gamma", "draft/length/cost_optimal_length.hpp", OPTIMAL, "limits_.depth = std::max(limits_.depth, std::min(reach.depth, reach.nodes));", "limits_.depth = std::min(reach.depth, reach.nodes);")
mutant("first-steps-of-cut-drafts", "draft/length/cost_optimal_length.hpp", OPTIMAL, "if (step.asked > asked_ || step.fed", "if (step.asked != asked_ || step.fed")
mutant("probe-too-dear-for-ever", "draft/length/cost_optimal_length.hpp", OPTIMAL, "std::min(time(probe_) - tokens(probe_) * now_, 3 * time(best_))", "(time(probe_) - tokens(probe_) * now_)")
mutant("never-switched-off", "draft/length/cost_optimal_length.hpp", OPTIMAL, "drafting.time < nothing.time ? drafting : nothing", "true ? drafting : nothing")
mutant("never-probes", "draft/length/cost_optimal_length.hpp", OPTIMAL, "!costs_.allow(budget_, probe_loss_)", "probe_loss_ < 1e9")
mutant("probes-for-free", "draft/length/cost_optimal_length.hpp", OPTIMAL, "costs_.allow(budget_, probe_loss_)", "costs_.allow(budget_, 0 * probe_loss_)")
mutant("prompt-taken-for-a-step", "draft/length/step_costs.hpp", OPTIMAL, "if (step.fed != step.drafted + 1) return;", "")
mutant("catching-up-timed", "draft/length/step_costs.hpp", OPTIMAL, "if (step.asked == 0 || !after_a_draft) return;", "if (step.asked == 0) return;")
mutant("draft-for-nothing", "draft/length/step_costs.hpp", OPTIMAL, "draft(depth) + target_(nodes + 1)", "0 * draft(depth) + target_(nodes + 1)")
mutant("short-proposals-free", "draft/length/cost_optimal_length.hpp", OPTIMAL, "(line.all_proposed - proposed) * costs_(i, i)", "0 * costs_(i, i)")
mutant("reach-stays", "measure/running_survival.hpp", OPTIMAL + " tests/measure/running_survival",
       "2 * longest_)", "0 * longest_)")
mutant("reach-of-all", "measure/running_survival.hpp", "tests/measure/running_survival", "return std::min({most, std::max(least_reach, 2 * longest_), longest_draft});", "return most;")
mutant("longest-tried-first", "draft/length/cost_optimal_length.hpp", OPTIMAL, "trunks[] = {2, 2, 0, 4};", "trunks[] = {2, 2, 0, 16};")
mutant("estimates-not-renewed", "draft/length/cost_optimal_length.hpp", OPTIMAL, "    learnt_.estimate();\n", "")
mutant("gives-up-after-a-bad-start", "measure/running_survival.hpp", OPTIMAL, "survived_[0].add(1);", "survived_[0].add(0);")
mutant("bad-times-outvote-good", "draft/length/cost_optimal_length.hpp", OPTIMAL,
       "    if (best_.size() == 0) learnt_.limit(few);\n", "")
mutant("always-proposes", "measure/running_survival.hpp", OPTIMAL + " tests/draft/length/goodput_length", "proposed_[place].add(drafted ? 1 : 0);", "proposed_[place].add(1);")
mutant("outliers-believed", "measure/cost_curve.hpp", OPTIMAL, "std::min(cost, 2 * mean.value())", "cost")

mutant = promise("a draft ends where the next token is not worth its time, by the rows that are paid for")
EARLY = "tests/draft/length/early_stopping_length"
EARLY_HPP = "draft/length/early_stopping_length.hpp"
mutant("line-not-ended-after-a-draw", "draft/strategies/line.hpp", EARLY, "      if (!drafts_another(keep_drafting, q, i)) end();\n", "")
mutant("trunk-not-ended-after-a-draw", "draft/strategies/spares.hpp", EARLY, "    if (!drafts_another(keep_drafting, q, drawn_ - 1)) trunk_ = drawn_;\n", "")
mutant("cascade-not-ended-after-a-draw", "loop/cascade_drafter.hpp", EARLY, "if (!drafts_another(keep_drafting, row, asked))", "if (asked < 0)")
mutant("cascade-drops-what-it-kept", "loop/cascade_drafter.hpp", EARLY, "return drafted(sequence, asked + 1);", "return drafted(sequence, asked);")
mutant("another-asked-of-nobody", "draft/model_drafter.hpp", EARLY, "return drafts_another(*keep_drafting, row, i);", "return keep_drafting != nullptr || i < 0 || row.vocab_size() < 0;")
mutant("readings-of-the-last-draft", "loop/step_base.hpp", EARLY, "    readings_.clear();\n", "")
mutant("readings-not-told", "loop/step_base.hpp", EARLY, "view_of(readings_.of_rows).first(std::min(readings_.of_rows.size(), offered().tokens.size()))", "view_of(readings_.of_rows).first(0)")
mutant("readings-of-another-text", "loop/batch.hpp", EARLY, "return {&policy_of(entry), &entry.step().new_readings()};", "return {&policy_of(entry), &entries_.front()->step().new_readings()};")
mutant("confidence-of-the-processed-row", "draft/length/draft_length.hpp", EARLY, "requires { row.unprocessed(); }", "requires { row.not_processed(); }")
mutant("ranges-of-confidence-mixed", "draft/length/survival_by_confidence.hpp", EARLY, "std::floor(std::log(std::max(odds, 1e-9))) + 2", "2 + 0 * odds")
mutant("confidence-never-forgotten", "draft/length/survival_by_confidence.hpp", EARLY, "    for (Share& share : shares_) share.fade(decay);\n", "")
mutant("survival-of-the-row-for-the-next", EARLY_HPP, EARLY, "if (i > 0 && i <= std::ssize(step.readings)) after_.add(at(i - 1), reached, survived);", "if (i < std::ssize(step.readings)) after_.add(at(i), reached, survived);")
mutant("worth-without-the-rows-before", EARLY_HPP, EARLY, "    for (const double confidence : confidences) survives *= read_(confidence);\n", "")
mutant("price-of-plain-steps", EARLY_HPP, EARLY, "return std::max(drafting_rate(), 1 / costs_.plain());", "return 1 / costs_.plain();")
mutant("early-never-off", EARLY_HPP, EARLY, "drafts_ = !drafts_;", "drafts_ = true;")
mutant("early-never-probes", EARLY_HPP, EARLY, "!costs_.allow(budget_, loss_of_probe())", "loss_of_probe() < 1e9")
mutant("early-first-lengths", EARLY_HPP, EARLY, "first_length[] = {2, 0, 4}", "first_length[] = {2, 0, 3}")
mutant("unread-drafts-at-full-length", EARLY_HPP, EARLY, "if (unread_ < recently)", "if (unread_ < 0)")
mutant("length-beyond-most", EARLY_HPP, EARLY, "return drafted < most_ && (drafted < least_", "return (drafted < least_")
mutant("early-never-beyond-the-first-reach", EARLY_HPP, EARLY, "std::min(2 * longest_, longest_draft)", "std::min(longest_, longest_draft)")
mutant("early-outvoted-by-what-ceased-to-pay", EARLY_HPP, EARLY, "    read_.limit(few);\n    after_.limit(few);\n", "")
mutant("early-probe-too-dear-for-ever", EARLY_HPP, EARLY, "std::clamp(loss, 0.0, 3 * step)", "std::max(loss, 0.0)")
mutant("early-probe-of-one-text", EARLY_HPP, EARLY, "(drafts_ ? 1 : 2) * texts_", "(drafts_ ? 1 : 2)")
mutant("early-first-steps-of-cut-drafts", EARLY_HPP, EARLY, "if (step.asked > asked_ || step.fed", "if (step.asked != asked_ || step.fed")
mutant("ranges-of-confidence-shifted", "draft/length/survival_by_confidence.hpp", EARLY, "std::floor(std::log(std::max(odds, 1e-9))) + 2", "std::floor(std::log(std::max(odds, 1e-9))) + 3")
BATCH_COSTS, BATCH_COSTS_TEST = "draft/length/batch_costs.hpp", "tests/draft/length/batch_costs"
mutant("batch-cost-of-a-token-shared", BATCH_COSTS, BATCH_COSTS_TEST, "target(other + nodes + 1) - target(other + whole(usual))", "(target(other + nodes + 1) - target(other + whole(usual))) / texts()")
mutant("batch-draft-not-shared", BATCH_COSTS, BATCH_COSTS_TEST, "draft_(texts_)) / texts()", "draft_(texts_))")
mutant("batch-costs-that-are-none", BATCH_COSTS, EARLY, "if (!(cost > 0 && std::isfinite(cost)))", "if (cost <= 0)")
mutant("batch-costs-checked-after-the-step", BATCH_COSTS, EARLY, "    plain();\n    (*this)(limits.nodes, limits.depth);\n", "    plain();\n    (void)limits;\n")
mutant("batch-of-one", BATCH_COSTS, BATCH_COSTS_TEST, "    texts_ = texts;\n", "")
mutant("batch-of-any-number", BATCH_COSTS, BATCH_COSTS_TEST, "if (texts < 1 || texts > largest_batch)", "if (texts < 1)")
mutant("batch-plain-step-costs-a-call-of-one", BATCH_COSTS, BATCH_COSTS_TEST, "return target(texts_) / texts();", "return target(1);")
mutant("batch-prompts-are-usual-steps", BATCH_COSTS, BATCH_COSTS_TEST, "if (step.fed == step.drafted + 1) fed_", "fed_")

mutant = promise("a tree grows as long as its tokens are worth their time, by an acceptance that is learnt")
RATED = "tests/draft/strategies/confident_tree"
GROWTH = "tests/draft/length/tree_growth"
GROWTH_HPP = "draft/length/tree_growth.hpp"
BY_PROBABILITY = "draft/length/acceptance_by_probability.hpp"
mutant("rated-tree-asked-of-nobody", "draft/model_drafter.hpp", EARLY, "requires requires { keep_drafting->tree(); }", "requires requires { keep_drafting->trees(); }")
mutant("rated-by-the-processed-row", "draft/length/rated_tree.hpp", RATED, "std::min(named.probability(token), 1.0)", "std::min(0 * named.probability(token) + processed, 1.0)")
mutant("rated-above-a-likelier-sibling", "draft/length/rated_tree.hpp", RATED, "least = std::min(least, this->checked(\"acceptance\", probability, rank++, accepted));", "least = this->checked(\"acceptance\", probability, rank++, accepted);")
mutant("rated-all-as-eldest", "draft/length/rated_tree.hpp", RATED, "probability, rank++, accepted", "probability, rank, accepted")
mutant("rated-unchecked", "draft/length/rated_tree.hpp", RATED, "if (!(accepted >= 0 && accepted <= 1))", "if (accepted < 0)")
mutant("rated-proposes-unchecked", "draft/length/rated_tree.hpp", RATED, "if (count < 0 || count > most)", "if (count > most)")
mutant("improbable-tokens-learn-fast", BY_PROBABILITY, GROWTH, "std::max(guess_weight, 1 / q)", "guess_weight")
mutant("rated-levels-not-asked", "draft/strategies/confident_tree.hpp", RATED, "if (!leaves_.empty() && rated.another_level(found)) return;", "if (!leaves_.empty()) return;")
mutant("rated-tokens-not-asked", "draft/strategies/confident_tree.hpp", RATED, "    keep_best(rated.proposed(found));\n", "")
mutant("rated-level-miscounted", "draft/strategies/confident_tree.hpp", RATED, "detail::view_of(leaf_values_), grown_}", "detail::view_of(leaf_values_), grown_ + 1}")
mutant("rated-leaves-of-the-first-level", "draft/strategies/confident_tree.hpp", RATED, "    leaf_values_.clear();\n", "")
mutant("rated-probability-of-another", "draft/strategies/confident_tree.hpp", RATED, "      tell(chosen.probability);\n", "      tell(node(best_.front()).probability);\n")
mutant("rated-deeper-than-the-tree", "draft/strategies/confident_tree.hpp", RATED, "if (grown_ + 1 == levels_) return;", "if (grown_ == levels_) return;")
mutant("rated-children-of-the-eldest", "loop/step_base.hpp", EARLY, "probabilities_.push_back(readings_.of_tokens[static_cast<std::size_t>(k)]);", "probabilities_.push_back(readings_.of_tokens[static_cast<std::size_t>(k - k)]);")
mutant("rated-children-of-the-last-step", "loop/step_base.hpp", EARLY, "    probabilities_.clear();\n", "")
mutant("rated-tokens-of-the-last-draft", "measure/step_record.hpp", EARLY, "    of_tokens.clear();\n", "")
mutant("rated-probabilities-unchecked", "measure/step_record.hpp", "tests/measure/stats", "if (!(probabilities[i] >= 0 && probabilities[i] <= 1))", "if (probabilities[i] < 0)")
mutant("rated-probabilities-uncounted", "measure/step_record.hpp", "tests/measure/stats", "std::ssize(probabilities) != children", "children < 0")
mutant("rated-siblings-mixed", GROWTH_HPP, GROWTH, "(rank == 0 ? eldest_ : others_)(probability)", "eldest_(probability)")
mutant("rated-elder-accepted", GROWTH_HPP, GROWTH, "add(probability, rank == accepted)", "add(probability, rank <= accepted)")
mutant("rated-never-forgotten", GROWTH_HPP, GROWTH, "    eldest_.fade(decay);\n", "")
mutant("rated-limit-ignored", GROWTH_HPP, GROWTH, "if (goes_on_.weight() > parents) fade(", "if (goes_on_.weight() > parents) goes_on_.fade(")
mutant("rated-leaves-go-on-for-sure", GROWTH_HPP, GROWTH, "reached *= goes_on_.with(1, 0.1);", "reached *= 1;")
mutant("rated-tokens-for-nothing", GROWTH_HPP, GROWTH, "std::max(0.0, leaf * reached - token)", "leaf * reached + 0 * token")
mutant("rated-poor-leaves-counted", GROWTH_HPP, GROWTH, "std::max(0.0, leaf * reached - token)", "leaf * reached - token")
mutant("rated-one-level-ahead", GROWTH_HPP, GROWTH, "looks_ahead = 4", "looks_ahead = 1")
mutant("rated-first-loss-ends", GROWTH_HPP, GROWTH, "if (best > 0 && !(gain > best_gain)) continue;", "if (best > 0 && !(gain > best_gain)) break;")
mutant("rated-tokens-at-no-price", GROWTH_HPP, GROWTH, "const double gain = tokens - price * time(nodes, found.levels);", "const double gain = tokens - 0 * price * time(nodes, found.levels);")
mutant("rated-probability-itself", BY_PROBABILITY, GROWTH, "return multiply(q, shares_[range_of(q)].factor(all_.factor(1)));", "return q + 0 * shares_[range_of(q)].factor(all_.factor(1));")
mutant("rated-ranges-mixed", BY_PROBABILITY, GROWTH, "ranges = 6", "ranges = 1")
mutant("rated-range-never-forgotten", BY_PROBABILITY, GROWTH, "    for (Share& share : shares_) share.fade(decay);\n", "")
mutant("rated-mean-in-place-of-odds", BY_PROBABILITY, GROWTH, "p * factor / (1 - p + p * factor)", "p * factor")
mutant("rated-first-trees-of-any-size", EARLY_HPP, EARLY, "return first_ == first_lengths && tree_", "return tree_")
mutant("rated-trees-teach-nothing", EARLY_HPP, EARLY, "else tree_.learn(step.tree);", "")
mutant("rated-trees-of-unread-drafters", EARLY_HPP, GROWTH, "!step.readings.empty() || !step.tree.probabilities.empty();", "!step.readings.empty();")

mutant = promise("a drawn tree gets the children that are expected to be worth their time, before they are drawn")
DRAWN = "tests/draft/strategies/tree"
CHILDREN_HPP = "draft/strategies/rated_children.hpp"
mutant("draws-asked-of-nobody", "draft/model_drafter.hpp", EARLY, "requires requires { keep_drafting->drawn_tree(); }", "requires requires { keep_drafting->drawn_trees(); }")
mutant("draws-counted-as-chosen", "draft/length/rated_tree.hpp", EARLY, "record(confidence, true)", "record(confidence, false)")
mutant("draws-of-the-last-draft", "measure/step_record.hpp", DRAWN, "    drawn = false;\n", "")
mutant("draws-rated-above-an-elder", "draft/length/rated_tree.hpp", DRAWN, "least = std::min(least, this->checked(\"drawn_acceptance\", confidence, rank, accepted));", "least = this->checked(\"drawn_acceptance\", confidence, rank, accepted);")
mutant("draws-all-rated-as-eldest", "draft/length/rated_tree.hpp", DRAWN, "drawn_acceptance(confidence, rank);", "drawn_acceptance(confidence, 0 * rank);")
mutant("draws-unchecked", "draft/length/rated_tree.hpp", DRAWN, "if (!(accepted >= 0 && accepted <= 1))", "if (accepted < 0)")
mutant("draws-rated-without-their-parents", CHILDREN_HPP, DRAWN, "value(parent) * acceptance", "acceptance")
mutant("draws-of-a-level-none", CHILDREN_HPP, DRAWN, "worthy(rated, most, levels, 1)", "worthy(rated, most, levels, 0)")
mutant("draws-beyond-the-limit", CHILDREN_HPP, DRAWN, "std::min({std::max(worthy, least), room, std::ssize(order_)})", "std::min(std::max(worthy, least), std::ssize(order_))")
mutant("draws-rated-that-were-not-drawn", CHILDREN_HPP, DRAWN, "      if (drawn-- <= 0) continue;\n", "")
mutant("draws-after-unworthy-leaves", CHILDREN_HPP, DRAWN, "worthy(rated, most, levels, 0)", "worthy(rated, most, levels, std::ssize(leaves))")
mutant("draws-leaves-of-all", CHILDREN_HPP, DRAWN, "    list_values(leaves);\n    sorted_ = values_;", "    sorted_ = values_;")
mutant("draws-level-not-asked", CHILDREN_HPP, DRAWN, "if (!rated.another_level({view_of(sorted_), view_of(candidates_), levels})) leaves.clear();", "rated.another_level({view_of(sorted_), view_of(candidates_), levels});")
mutant("draws-least-valuable-first", CHILDREN_HPP, DRAWN, "of_a > of_b : a < b", "of_a < of_b : a < b")
mutant("draws-beside-tokens-forgotten", CHILDREN_HPP, DRAWN, "std::count_if(order_.begin(), end, is_candidate)", "end - order_.begin()")
mutant("draws-deeper-than-the-limit", "draft/strategies/tree.hpp", DRAWN, "if (levels_ == limits_.depth || ", "if (")
mutant("draws-leaves-at-the-limit", "draft/strategies/tree.hpp", DRAWN, " || std::ssize(tokens_) == limits_.nodes) return;", ") return;")
mutant("draws-beyond-the-context", "draft/strategies/tree.hpp", DRAWN, " && std::ssize(level_) < room_ - cached_) level_", ") level_")
mutant("draws-elders-not-rejected", GROWTH_HPP, GROWTH, "return elders_rejected * std::pow", "return std::pow")
mutant("draws-younger-count", GROWTH_HPP, GROWTH, "if (accepted < 0 || rank <= accepted) drawn_", "drawn_")
mutant("draws-all-ranks-alike", GROWTH_HPP, GROWTH, "std::min(static_cast<std::size_t>(rank), ranks - 1)", "std::min<std::size_t>(static_cast<std::size_t>(rank), 1)")
mutant("draws-younger-all-alike", GROWTH_HPP, GROWTH, "std::pow(1 - accepted, rank - static_cast<Index>(own))", "1.0")
mutant("draws-of-more-than-the-limit-rated", CHILDREN_HPP, DRAWN, "if (std::ssize(sorted_) > most) sorted_.resize(static_cast<std::size_t>(most));", "")
mutant("draws-rated-by-copies", "draft/strategies/tree.hpp", DRAWN, "output.row(static_cast<Index>(i)), children", "after_[first + static_cast<Index>(i)], children")
mutant("draws-never-forgotten", GROWTH_HPP, GROWTH, "    for (SurvivalByConfidence& drawn : drawn_) drawn.fade(decay);\n", "")

mutant = promise("a model drafter reports the very rows it drew from, and its cache follows the context")
mutant("drafter-row-sizes-unchecked", "draft/model_drafter.hpp", "tests/draft/model_drafter", "    check_shape(\"draft model\", rows_.rows(), row.vocab_size(), rows_.rows(), vocab_size_);\n", "")
mutant("drafter-stable-row-of-previous", "rows/kinds/stored_rows.hpp", "tests/draft/strategies/line tests/law_concepts tests/model/ngram",
       "rows_.push_back(row);",
       "rows_.push_back(rows_.empty() ? row : rows_.back());")

mutant = promise("prompt lookup proposes what followed the latest earlier occurrence")
mutant("lookup-matches-itself", "draft/from_text/prompt_lookup.hpp", "tests/draft/from_text/prompt_lookup",
       "indexed_ < std::ssize(context); ++indexed_", "indexed_ <= std::ssize(context); ++indexed_")
mutant("lookup-first-occurrence", "draft/from_text/prompt_lookup.hpp", "tests/draft/from_text/prompt_lookup",
       "ends_.latest(context, indexed_, n) = indexed_;",
       "if (Index& end = ends_.latest(context, indexed_, n); end == 0) end = indexed_;")
mutant("lookup-shortest-match", "draft/from_text/prompt_lookup.hpp", "tests/draft/from_text/prompt_lookup",
       "for (Index n = std::min(ends_.max_ngram(), size - 1); n >= ends_.min_ngram(); --n)",
       "for (Index n = ends_.min_ngram(); n <= std::min(ends_.max_ngram(), size - 1); ++n)")
mutant("lookup-of-any-length", "draft/from_text/ngram_ends.hpp", "tests/draft/from_text/ngram_ends tests/draft/from_text/prompt_lookup",
       " || max_ngram > longest_ngram)", ")")
mutant("lookup-of-another-length", "draft/from_text/ngram_ends.hpp", "tests/draft/from_text/ngram_ends tests/draft/from_text/prompt_lookup",
       "static_cast<std::size_t>(n - min_ngram_) * slots_;", "static_cast<std::size_t>(n - n) * slots_;")
mutant("lookup-by-hash-alone", "draft/from_text/ngram_ends.hpp", "tests/draft/from_text/ngram_ends",
       "if (found == 0 || std::equal(key.begin(), key.end(), ngram(text, found, n).begin())) return found;", "return found;")
mutant("lookup-remembers-another-text", "draft/from_text/prompt_lookup.hpp", "tests/draft/from_text/prompt_lookup",
       "if (length >= indexed_) return;", "return;")

mutant = promise("the suffix drafter goes on from the longest match, with exact counts")
mutant("suffix-ties-to-the-first", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "count >= edge(at(state).best).count", "count > edge(at(state).best).count")
mutant("suffix-joins-texts", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "    End end;\n    for (Index i = 0; i < tokens.size()", "    End& end = end_;\n    for (Index i = 0; i < tokens.size()")
mutant("suffix-keep-drafting-in-another-text", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "if (length >= end_.length) return;", "return;")
mutant("suffix-short-matches-too", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "match.length < min_match_ ? Match{none, 0} : match", "match.length < 1 ? Match{none, 0} : match")
mutant("suffix-drafts-what-is-rare", "draft/from_text/suffix_drafter.hpp", "tests/draft/from_text/suffix_drafter", "        if (is_rare(best.count, state.followed)) break;\n", "")
mutant("suffix-ends-at-just-enough", "draft/from_text/suffix_drafter.hpp", "tests/draft/from_text/suffix_drafter",
       "static_cast<double>(count) < min_share_", "static_cast<double>(count) <= min_share_")
mutant("suffix-own-proposal-not-matched", "draft/from_text/suffix_drafter.hpp", "tests/draft/from_text/suffix_drafter",
       "match = learnt.longer(match, best);", "match = learnt.longest();")
mutant("suffix-clone-without-counts", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "add_edge(clone, edge(i).token, edge(i).to, edge(i).count)", "add_edge(clone, edge(i).token, edge(i).to, 0)")
mutant("suffix-clone-without-leader", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "if (i == state(q).best) at(clone).best = copied;", "at(clone).best = copied;")
mutant("suffix-known-text-entered-again", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "if (find(end, token) != none) return shorten(end, token);", "")
mutant("suffix-no-clone", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "if (state(q).length == state(p).length + 1) return q;", "return q;")
mutant("suffix-match-without-limit", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "const Index length = std::min(match.length + 1, max_match_);", "const Index length = match.length + 1;")
mutant("suffix-match-of-another-time", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "return {automaton_.suffix(end_.match, length), length};", "return {end_.match, length};")
mutant("suffix-limit-overflows", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "std::ssize(tokens) - 1 > max_match_",
       "std::ssize(tokens) > static_cast<Index>(static_cast<std::size_t>(max_match_) + 1)")
mutant("suffix-share-of-all-counts", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       ".followed = state(q).followed}", ".followed = 0}")
mutant("suffix-counts-a-text-twice", "draft/from_text/learnt_suffixes.hpp", "tests/draft/from_text/suffix_drafter",
       "if (i <= survived || automaton_.state(state).is_text)", "if (i <= survived)")

mutant = promise("a chain passes on the first proposal, rolls all members back, and keeps the rows' meaning")
mutant("chain-refuses-short-proposals", "draft/fallback_drafter.hpp", "tests/draft/fallback_drafter",
       "if (tokens.empty()) return propose", "if (tokens.size() < 2) return propose")
mutant("chain-rolls-back-one", "draft/fallback_drafter.hpp", "tests/draft/fallback_drafter",
       "(member.truncate(length), ...);", "std::get<0>(std::tie(member...)).truncate(length);")
mutant("chain-policy-not-asked", "draft/fallback_drafter.hpp", "tests/draft/fallback_drafter",
       "ask_drafter(std::get<k>(drafters_), context, limits, source, keep_drafting...);",
       "[&](auto&...) -> decltype(auto) {\n      return ask_drafter(std::get<k>(drafters_), context, limits, source);\n    }(keep_drafting...);")
mutant("chain-line-that-branches", "draft/fallback_drafter.hpp", "tests/draft/fallback_to_trees",
       "    parents_.clear();\n    detail::append(parents_, parents);\n",
       "    parents_.assign(tokens.size(), -1);\n")
mutant("chain-line-beyond-its-depth", "draft/drafter.hpp", "tests/draft/drafter tests/draft/fallback_to_trees",
       "drafter.draft(context, limits.length(), chance, more...);",
       "drafter.draft(context, limits.nodes, chance, more...);")
mutant("chain-line-told-of-branches", "draft/fallback_drafter.hpp", "tests/draft/fallback_to_trees", "else if (is_line) member", "else member")
mutant("chain-tree-not-told", "draft/fallback_drafter.hpp", "tests/draft/fallback_to_trees",
       "if constexpr (specdec::drafts_trees<M>) member.observe(target_rows, drafted, parents, verdict);\n        else if (is_line)",
       "if (is_line)")
mutant("chain-members-not-told", "draft/fallback_drafter.hpp", "tests/draft/fallback_drafter",
       "if constexpr (observes<M, Rows>) {",
       "if constexpr (false) {")
mutant("variant-list-misplaced", "rows/kinds/variant_rows.hpp", "tests/rows/kinds/variant_rows",
       "segment[row.support(k) - start] = row.listed(k);", "segment[k] = row.listed(k);")
mutant("variant-list-unchecked", "rows/kinds/variant_rows.hpp", "tests/rows/kinds/variant_rows",
       "      detail::check_ascending(row, k, start);\n", "")
mutant("variant-claims-a-vocabulary", "rows/kinds/variant_rows.hpp", "tests/rows/kinds/variant_rows tests/draft/fallback_drafter",
       "    else return 0;\n", "    else return Index{1} << 40;\n")

mutant = promise("the goodput of a batch: what its calls and drafts cost, and what comes of them")
GOODPUT = "tests/draft/length/goodput_length"
mutant("goodput-of-one", "draft/length/goodput_length.hpp", GOODPUT,
       "static_cast<Index>(sequences * fed + 0.5)", "static_cast<Index>(fed + 0.5)")
mutant("goodput-drafts-free", "draft/length/goodput_length.hpp", GOODPUT,
       "static_cast<double>(gamma) * drafted_token", "0 * drafted_token")
mutant("goodput-all-proposed", "draft/length/goodput_length.hpp", GOODPUT, "fed += proposed;", "fed += 0 * proposed + 1;")
mutant("goodput-never-probes", "draft/length/goodput_length.hpp", GOODPUT, "? probe : 0;", "? 0 : 0;")
mutant("goodput-probes-for-all", "draft/length/goodput_length.hpp", GOODPUT, " / static_cast<double>(batch_);", ";")
mutant("goodput-window-of-the-first-batch", "draft/length/goodput_length.hpp", GOODPUT,
       "    batch_ = sequences;\n    survival_.decay(", "    const bool same = sequences == batch_;\n    batch_ = sequences;\n    if (same) survival_.decay(")
mutant("goodput-asks-in-vain-for-ever", "draft/length/goodput_length.hpp", GOODPUT, "if (step.asked > 0) {", "if (step.drafted > 0) {")
mutant("goodput-earns-for-good", "draft/length/goodput_length.hpp", GOODPUT, "      earned_ = 0;\n", "")
mutant("goodput-no-first-drafts", "draft/length/goodput_length.hpp", "tests/draft/length/goodput_length",
       "first_drafts = 8,", "first_drafts = 0,")
mutant("goodput-cut-tokens", "draft/length/goodput_length.hpp", "tests/draft/length/goodput_length", "sequences * fed + 0.5", "sequences * fed")
mutant("goodput-longest-of-equals", "draft/length/goodput_length.hpp", "tests/draft/length/goodput_length",
       "!(e.goodput() > goodput)", "!(e.goodput() >= goodput)")
mutant("goodput-window-of-sequences", "draft/length/goodput_length.hpp", "tests/draft/length/goodput_length",
       "window_ * static_cast<double>(sequences)", "window_")
mutant("survival-fades-unasked", "measure/running_survival.hpp", "tests/draft/length/goodput_length",
       "    if (step.asked == 0) return;\n", "")

mutant = promise("the trie of contexts counts what follows what, exactly")
mutant("counts-too-short-contexts", "model/ngram_counts.hpp", "tests/model/ngram_counts",
       "std::erase(positions_, length - 1);", "std::erase(positions_, length);")
mutant("counts-of-other-parents", "model/ngram_counts.hpp", "tests/model/ngram_counts",
       "nodes().back().parent == parent && nodes().back().token == token", "nodes().back().token == token")

mutant = promise("a draft goes on at a row that is just sure enough")
mutant("policy-heard-in-vain", "draft/length/keep_drafting.hpp", "tests/draft/length/draft_length",
       "return length->keep_drafting(row, i);", "static_cast<void>(length->keep_drafting(row, i));\n      return true;")
mutant("confident-beyond-its-least", "draft/length/draft_length.hpp", "tests/draft/length/draft_length",
       "largest_probability(row, i) >= least_;", "largest_probability(row, i) > least_;")
mutant("entropy-short-of-its-most", "draft/length/draft_length.hpp", "tests/draft/length/draft_length",
       "read_unprocessed(row, i, finite_entropy) <= most_;", "read_unprocessed(row, i, finite_entropy) < most_;")
mutant("entropy-that-is-none", "draft/length/draft_length.hpp", "tests/draft/length/draft_length",
       "if (!std::isfinite(nats))", "if (false)")
mutant("confidence-that-is-none", "rows/read/largest_probability.hpp", "tests/draft/length/draft_length",
       'if (!is_probability(p)) invalid_distribution("the probability of token ", x, " is ", p);', "")

mutant = promise("a policy learns from nothing that it did not ask for")
mutant("cost-optimal-observes-unasked", "draft/length/cost_optimal_length.hpp", "tests/draft/length/cost_optimal_length",
       "    if (asked_ < 0) return;  // next() was never asked\n", "")

mutant = promise("lengths that are not looked at, and batches beyond counting, are named")
mutant("schedule-overflows", "draft/length/draft_length.hpp", "tests/draft/length/draft_length", "std::min(step.drafted, longest)", "step.drafted")
mutant("length-of-no-estimate", "draft/length/cost_optimal_length.hpp", "tests/draft/length/cost_optimal_length",
       "if (gamma < 0 || gamma > longest())", "if (false)")
mutant("goodput-of-no-estimate", "draft/length/goodput_length.hpp", "tests/draft/length/goodput_length",
       "if (gamma < 0 || gamma > survival_.most())", "if (false)")
mutant("batch-beyond-counting", "draft/length/goodput_length.hpp", "tests/draft/length/goodput_length", "if (sequences > largest_batch)", "if (false)")
mutant("lookup-of-less-than-nothing", "draft/from_text/prompt_lookup.hpp", "tests/draft/from_text/prompt_lookup", "std::max<Index>(gamma, 0)", "gamma")

SHAPE = "tests/draft/strategies/tree_shape"
mutant = promise("a shape is the tree that was given, and its first nodes are what is within limits")
mutant("shape-one-level-too-deep", "draft/strategies/tree_shape.hpp", SHAPE, "std::clamp<Index>(limits.depth, 0, depth())", "std::clamp<Index>(limits.depth + 1, 0, depth())")
mutant("shape-of-any-size", "draft/strategies/tree_shape.hpp", SHAPE, "std::clamp<Index>(limits.nodes, 0, deep)", "deep")
mutant("shape-follows-given-numbers", "draft/strategies/tree_shape.hpp", SHAPE, "append_children(given[k], static_cast<Index>(k));",
       "append_children(given[k], given[k]);")
mutant("shape-parents-unchecked", "draft/strategies/tree_shape.hpp", SHAPE, "detail::check_parent(k, parents[static_cast<std::size_t>(k)]);", ";")
mutant("shape-widths-unchecked", "draft/strategies/tree_shape.hpp", SHAPE, "if (width < 1)", "if (false)")

SEQUOIA = "tests/draft/length/sequoia_shape"
mutant = promise("no tree of as many nodes is expected to have more accepted")
mutant("sequoia-child-after-nobody", "draft/length/sequoia_shape.hpp", SEQUOIA, "acceptance_[rank] * (1 + value_[below])", "(acceptance_[rank] + value_[below])")
mutant("sequoia-nodes-spent-twice", "draft/length/sequoia_shape.hpp", SEQUOIA, "younger[n - 1 - below]", "younger[n - 1]")
mutant("sequoia-other-tree-than-its-value", "draft/length/sequoia_shape.hpp", SEQUOIA, "left -= static_cast<std::size_t>(below) + 1;", "left -= static_cast<std::size_t>(below);")
mutant("sequoia-a-level-short", "draft/length/sequoia_shape.hpp", SEQUOIA, "levels < std::min(depth, nodes) && add_level()", "levels + 1 < std::min(depth, nodes) && add_level()")
mutant("sequoia-chances-unchecked", "draft/length/sequoia_shape.hpp", SEQUOIA, "if (sum > 1 + rounding)", "if (false)")

SIBLINGS = "tests/draft/strategies/siblings"
TREE = "tests/draft/strategies/tree"
mutant = promise("a tree reports the very rows that its tokens were drawn from, given their elder siblings")
mutant("independent-twins", "draft/strategies/siblings.hpp", "tests/draft/strategies/siblings",
       "if (static_cast<double>(q.probability(tokens.back())) == 1) return;", "")
mutant("sibling-with-its-elders", "draft/strategies/siblings.hpp", SIBLINGS + " " + TREE, "chance.draw(detail::NamedRow(rest, ", "chance.draw(detail::NamedRow(q, ")
mutant("siblings-report-the-whole-row", "draft/strategies/siblings.hpp", SIBLINGS + " " + TREE, "      rows.push_back(rest);", "      rows.push_back({q, {siblings.first(0)}});")
mutant("siblings-never-end", "draft/strategies/siblings.hpp", SIBLINGS + " " + TREE, "if (!(rest.mass() > 0)) return;", "")
mutant("tree-of-the-row-before", "draft/strategies/tree.hpp", TREE, "i == 0 && levels_ <= trunk_), after_[first + static_cast<Index>(i)]", "i == 0 && levels_ <= trunk_), after_[first]")
mutant("tree-after-another-token", "draft/strategies/tree.hpp", TREE,
       "numbers_[static_cast<std::size_t>(parents_[at])]);",
       "numbers_[static_cast<std::size_t>(parents_[at])] * 0);")
mutant("tree-beyond-its-limits", "draft/strategies/tree.hpp", TREE,
       "std::min(most, children(k))", "std::max(most, children(k))")
mutant("tree-context-overfed", "draft/strategies/tree.hpp", TREE, "(!fed && inner_left < 1)", "(!fed && inner_left < 0)")
mutant("tree-context-overflowed", "draft/strategies/tree.hpp", TREE, "if (inner < 0) return 0;", "")
mutant("tree-leaves-taken-in", "draft/strategies/tree.hpp", TREE, "if (wanted(k, k == next && levels_ < trunk_) > 0) level_.push_back(k);", "level_.push_back(k);")

mutant = promise("a draft model keeps what the context goes on with of its tree, and nothing else")
mutant("unknown-token-that-is-the-vocabulary-size", "token_ids.hpp",
       "tests/draft/model_drafter tests/loop/cascade_drafter", "if (largest < vocab_size) return tokens;", "if (largest <= vocab_size) return tokens;")
mutant("tree-limits-of-one-token", "draft/drafter.hpp", "tests/draft/drafter", "Index depth = unlimited;", "Index depth = 1;")
mutant("tree-kept-against-truncate", "draft/cached_draft.hpp", TREE,
       "std::ssize(context) - 1 - cached_, lasting_)",
       "std::ssize(context) - 1 - cached_, unlimited)")
mutant("tree-never-kept", "draft/cached_draft.hpp", TREE, "if (node < 0) break;", "break;")
mutant("tree-of-another-token-kept", "draft/cached_draft.hpp", TREE,
       "parents_[static_cast<std::size_t>(k)] == node && tokens_[static_cast<std::size_t>(k)] == token",
       "parents_[static_cast<std::size_t>(k)] == node && token >= 0")
mutant("tree-kept-but-not-counted", "draft/cached_draft.hpp", TREE, "      cached_ += std::ssize(path);\n", "")
mutant("tree-stays-open", "draft/cached_draft.hpp", TREE, "if (tokens_.empty() && length >= cached_) return;", "if (length >= cached_) return;")
mutant("tree-remembered-across-turns", "draft/model_drafter.hpp", "tests/draft/model_drafter", "        context.cached = {};\n", "")
mutant("tree-lasts-beyond-the-draft", "draft/cached_draft.hpp", TREE, "    if (!tokens_.empty()) {\n      lasting_", "    {\n      lasting_")
mutant("tree-open-after-a-failed-call", "draft/cached_draft.hpp", "tests/draft/model_drafter",
       "    close(model, sequence, unlimited);\n",
       "    static_cast<void>(model), static_cast<void>(sequence);\n")

mutant = promise("drafts that are made together are those that each sequence would get alone, whatever the strategy")
mutant("drafts-of-another-row", "draft/model_drafter.hpp", "tests/draft/model_drafter",
       "RowsOfDraft(rows, first, vocab_size())",
       "RowsOfDraft(rows, 0 * first, vocab_size())")
mutant("drafts-of-short-rows", "draft/model_drafter.hpp", "tests/draft/model_drafter",
       "    if (rows.rows() != rows_)\n",
       "    if (false)\n")
mutant("drafts-grow-after-an-error", "draft/model_drafter.hpp", "tests/draft/model_drafter",
       "      if (requests[r].error) continue;\n", "")
mutant("drafts-of-failed-calls-remembered", "draft/model_drafter.hpp", "tests/draft/model_drafter",
       "          contexts_.at(feed.sequence).cached.abandon(model_, feed.sequence);\n",
       "          static_cast<void>(feed);\n")
mutant("drafts-begun-at-every-stage", "draft/model_drafter.hpp", "tests/draft/model_drafter",
       "    if (std::exchange(context.begun, true)) return;\n",
       "")
mutant("drafts-beyond-the-context", "draft/model_drafter.hpp", "tests/draft/model_drafter",
       "std::ssize(request.context), reach(", "std::ssize(request.context) + 1, reach(")
mutant("drafts-after-nothing", "draft/model_drafter.hpp", "tests/draft/model_drafter", "if (request.context.empty()) detail", "if (false) detail")
mutant("released-sequence-kept", "draft/model_drafter.hpp", "tests/draft/model_drafter", "    model_.release(sequence);\n", "")
mutant("model-of-another-taken-as-it-is", "draft/model_drafter.hpp", "tests/draft/model_drafter", "        model_.keep(0, 0);\n", "")
mutant("strategy-unchecked", "draft/model_drafter.hpp", "tests/draft/strategies/confident_tree",
       "if constexpr (requires { strategy_.check_settings(); }) strategy_.check_settings();",
       "")
mutant("wish-for-the-last-row-alone", "draft/cached_draft.hpp", "tests/draft/strategies/tree", ".rows = std::ssize(wish.tokens), .parents", ".rows = 1, .parents")
mutant("last-token-with-no-room", "draft/drafter.hpp", "tests/draft/strategies/line tests/draft/model_drafter",
       "room == unlimited ? room : room + 1;",
       "room;")
mutant("tree-drafted-as-a-line", "model/feeds.hpp", "tests/draft/model_drafter",
       "      if (!feed.parents.empty()) return model_.forward(feed.tokens, feed.parents, rows);\n",
       "")

LINE = "tests/draft/strategies/line"
mutant = promise("a draft model keeps what the context goes on with of its line, and nothing else")
mutant("line-kept-after-another-token", "draft/cached_draft.hpp", "tests/draft/model_drafter",
       "if (from_ + i >= context.size() || context[from_ + i] != line_[i])",
       "if (from_ + i >= context.size())")
mutant("line-never-kept", "draft/cached_draft.hpp", LINE,
       "      if (from_ + i >= context.size() || context[from_ + i] != line_[i])",
       "      if (true)")
mutant("line-not-cut", "draft/cached_draft.hpp", "tests/draft/model_drafter",
       "if (length < cached_) keep(model, sequence, length);",
       "static_cast<void>(model), static_cast<void>(sequence), static_cast<void>(length);")
mutant("line-of-two-drafts", "draft/cached_draft.hpp", "tests/draft/model_drafter", "    line_.clear();\n", "")
mutant("line-not-remembered", "draft/cached_draft.hpp", "tests/draft/model_drafter",
       "    append(line_, wish.tokens);\n",
       "")
mutant("line-taken-in-but-not-counted", "draft/cached_draft.hpp", "tests/draft/model_drafter",
       "    cached_ += std::ssize(feed.tokens);\n    append(line_",
       "    append(line_")
mutant("line-kept-but-not-counted", "draft/cached_draft.hpp", "tests/draft/model_drafter",
       "  void keep(M& model, Index sequence, Index length) {\n    cached_ = std::clamp<Index>(length, 0, cached_);\n",
       "  void keep(M& model, Index sequence, Index length) {\n")
mutant("line-kept-by-the-drafter-alone", "draft/cached_draft.hpp", "tests/draft/model_drafter",
       "  void keep(M& model, Index sequence, Index length) {\n    cached_ = std::clamp<Index>(length, 0, cached_);\n    model.keep(sequence, cached_);\n",
       "  void keep(M& model, Index sequence, Index length) {\n    static_cast<void>(model), static_cast<void>(sequence);\n    cached_ = std::clamp<Index>(length, 0, cached_);\n")
mutant("trunk-stays-in-the-way", "draft/cached_draft.hpp", "tests/draft/model_drafter",
       "    if (wish.kept < std::ssize(line_)) {\n",
       "    if (false) {\n")
mutant("line-beyond-its-length", "draft/strategies/line.hpp", LINE, "return std::ssize(tokens_) < most_;", "return std::ssize(tokens_) <= most_;")

SPARES = "tests/draft/strategies/spares"
mutant = promise("trunk and spares: what was drawn reports its row, what was chosen is the likeliest else")
mutant("spare-reports-a-drawn-row", "draft/strategies/spares.hpp", SPARES,
       "Row(std::in_place_index<1>, OneHotRow(likely.token))",
       "Row(std::in_place_index<0>, after_[after_.size() - 1])")
mutant("spare-drawn-already", "draft/strategies/spares.hpp", SPARES, "likely.token != drawn && count-- > 0", "count-- > 0")
mutant("spare-one-short", "draft/strategies/spares.hpp", SPARES, "likeliest_.of(q, count + 1)", "likeliest_.of(q, count)")
mutant("spares-beyond-the-limit", "draft/strategies/spares.hpp", SPARES,
       "std::clamp<Index>(left - 1 - to_come, 0, plan.spares_at(d))",
       "plan.spares_at(d)")
mutant("trunk-beyond-the-limit", "draft/strategies/spares.hpp", SPARES, "std::min(limits.depth, room)", "room")
mutant("trunk-after-a-spare", "draft/strategies/spares.hpp", SPARES,
       "spares > 0) name.named([&] { add_spares(q, drawn, parent, spares); });",
       "spares > 0) name.named([&] { add_spares(q, drawn, parent, spares); });\n    last_ = std::ssize(tokens_) - 1;")
mutant("second-trunk-overwritten", "draft/strategies/spares.hpp", SPARES, "using Copies = StoredRows<Q, false>;", "using Copies = Rows;")
mutant("second-trunk-in-the-way", "draft/strategies/spares.hpp", SPARES, ".kept = anew_ && second_left_ == 0 ? 0 : unlimited", ".kept = unlimited")
mutant("second-trunk-before-its-level", "draft/strategies/spares.hpp", SPARES, "left -= 1 + spares_.back();", "--left;")
mutant("second-trunk-too-deep", "draft/strategies/spares.hpp", SPARES,
       "std::min(depth, std::max(trunk, plan.second_trunk() + 1))",
       "std::max(trunk, plan.second_trunk() + 1)")
mutant("second-trunk-after-the-first", "draft/strategies/spares.hpp", SPARES, "second_last_ = 1;", "second_last_ = 0;")
mutant("spares-unbounded", "draft/strategies/spares.hpp", SPARES, "left -= 1 + spares_at(d);", "left -= 1;")
mutant("trunk-ends-where-spares-are-missing", "draft/strategies/spares.hpp", "tests/law_tree_loop",
       "if (spares > 0) name.named([&] { add_spares(q, drawn, parent, spares); });",
       "if (spares > 0) name.named([&] { add_spares(q, drawn, parent, spares); });\n    if (std::ssize(tokens_) - last_ <= spares) trunk_ = drawn_;")
mutant("second-trunk-of-no-spare", "draft/strategies/spares.hpp", SPARES, "if (drawn_ > 1 || tokens_.size() < 2) return;", "if (drawn_ > 1) return;")

CONFIDENT = "tests/draft/strategies/confident_tree"
mutant = promise("a confident tree is that of the largest products of draft probabilities")
mutant("confident-of-the-last-token-alone", "draft/strategies/confident_tree.hpp", CONFIDENT,
       "{token, leaf, confidence * acceptance, probability, -1}", "{token, leaf, acceptance + 0 * confidence, probability, -1}")
mutant("confident-later-of-equals", "draft/strategies/confident_tree.hpp", CONFIDENT, ": a < b;", ": a > b;")
mutant("confident-leaves-of-all-levels", "draft/strategies/confident_tree.hpp", CONFIDENT, "if (k >= level && ", "if (")
mutant("confident-first-leaves", "draft/strategies/confident_tree.hpp", CONFIDENT,
       "    const Index most = std::min(width_, room_);\n",
       "    const Index most = std::min(width_, room_);\n    std::sort(best_.begin(), best_.end());\n")
mutant("confident-wider", "draft/strategies/confident_tree.hpp", CONFIDENT, "std::min(width_, room_);", "room_;")
mutant("confident-context-overfed", "draft/strategies/confident_tree.hpp", CONFIDENT, "    room_ -= std::ssize(leaves_);\n", "")
mutant("confident-after-another-token", "draft/strategies/confident_tree.hpp", CONFIDENT, ".number = cached_++;", ".number = cached_;")
mutant("confident-of-too-many", "draft/strategies/confident_tree.hpp", CONFIDENT,
       "    keep_best(nodes_);\n", "")
mutant("confident-context-overflowed", "draft/strategies/confident_tree.hpp", CONFIDENT, "nodes_ > 0 && room >= 0 ?", "nodes_ > 0 ?")

mutant = promise("the trunk that a rule needs comes before the rest of the tree")
mutant("spares-before-the-trunk", "draft/strategies/spares.hpp", "tests/law_tree_loop", "std::max<Index>(limits.trunk - d - 1, 0);", "0;")
mutant("spares-second-trunk-before-the-needed-trunk", "draft/strategies/spares.hpp", "tests/law_tree_loop",
       "limits.trunk == 0 && spares_.front() > 0;", "spares_.front() > 0;")
mutant("tree-trunk-forgotten", "draft/strategies/tree.hpp", TREE, "trunk_ = detail::needed_trunk(limits, room);", "trunk_ = 0;")
mutant("tree-trunk-paid-twice", "draft/strategies/tree.hpp", TREE, "if (++depth <= trunk) continue;", "++depth;")
mutant("tree-trunk-in-room-for-others", "draft/strategies/tree.hpp", TREE, "inner - std::max<Index>(trunk - 1, 0);", "inner;")
mutant("tree-trunk-not-longer-than-the-shape", "draft/strategies/tree.hpp", TREE,
       "k == next && levels_ < trunk_", "k == next && levels_ < std::min(trunk_, shape().depth())")
mutant("tree-trunk-after-another-token", "draft/strategies/tree.hpp", TREE, "k == next && levels_ < trunk_", "k + 1 == std::ssize(tokens_) && levels_ < trunk_")

COUNTED = "tests/draft/from_text/counted_tree"
mutant = promise("a tree of counts has the nodes of the largest probability by them, on the line's own draft")
mutant("counted-shares-all", "draft/from_text/counted_tree.hpp", COUNTED, "(found_[i].probability - 0.5) / times;", "found_[i].probability / times;")
mutant("counted-twins", "draft/from_text/counted_tree.hpp", COUNTED, "if (longer != none && counted.has(longer, token)) return;", "")
mutant("counted-shorter-match-as-sure", "draft/from_text/counted_tree.hpp", COUNTED, "left *= read(", "read(")
mutant("counted-trunk-forgotten", "draft/from_text/counted_tree.hpp", COUNTED, "found(eldest).depth <= limits.trunk && ", "false && ")
mutant("counted-too-deep", "draft/from_text/counted_tree.hpp", COUNTED, "return node.depth < depth_ && ", "return node.depth <= depth_ && ")
mutant("counted-eldest-by-probability", "draft/from_text/counted_tree.hpp", COUNTED,
       "const auto younger = found_.begin() + static_cast<std::ptrdiff_t>(eldest + 1);", "const auto younger = found_.begin() + static_cast<std::ptrdiff_t>(eldest);")
mutant("counted-siblings-repeated", "draft/from_text/counted_tree.hpp", "tests/draft/from_text/datastore_drafter", "if (repeats(i)) {", "if (false) {")
mutant("counted-eldest-waits", "draft/from_text/counted_tree.hpp", COUNTED, "std::max(found_[eldest].priority, found_[eldest + 1].priority)", "found_[eldest].priority")
mutant("counted-one-too-few", "draft/from_text/counted_tree.hpp", COUNTED, "std::ssize(best_) < nodes_ ? 0 : best_.front()", "best_.empty() ? 0 : best_.front()")
mutant("counted-reads-all", "draft/from_text/counted_tree.hpp", COUNTED, "if (found_.size() > eldest && left <= least()) return false;", "")
mutant("suffix-tree-of-the-longest-match", "draft/from_text/suffix_drafter.hpp", "tests/draft/from_text/suffix_drafter", "if (!visit(match.state)) return;", "return void(visit(match.state));")
mutant("suffix-tree-after-another-token", "draft/from_text/suffix_drafter.hpp", "tests/draft/from_text/suffix_drafter",
       "automaton.edge(automaton.find(match.state, token))", "automaton.edge(automaton.state(match.state).best)")
mutant("suffix-tree-of-another-place", "draft/from_text/suffix_drafter.hpp", "tests/draft/from_text/suffix_drafter",
       "places_[static_cast<std::size_t>(place)]", "places_[0 * static_cast<std::size_t>(place)]")
mutant("suffix-siblings-lost", "draft/from_text/suffix_drafter.hpp", "tests/draft/from_text/suffix_drafter",
       "i != none; i = automaton.edge(i).next)", "i != none; i = none)")

mutant = promise("a policy takes the tree of the least time per token")
TREE_SHAPES = "tests/draft/length/tree_shapes"
mutant("trees-without-draft-cost", "draft/length/cost_optimal_length.hpp", TREE_SHAPES,
       "costs_(nodes, trunk.length)", "costs_(nodes, 0)")
mutant("trees-of-free-tokens", "draft/length/cost_optimal_length.hpp", TREE_SHAPES,
       "costs_(nodes, trunk.length)", "costs_(trunk.length, trunk.length)")
mutant("trees-never-probed", "draft/length/cost_optimal_length.hpp", TREE_SHAPES,
       "first_ < first_plans || probe_steps_ > 0 ? probe_ : best_", "first_ < first_plans ? probe_ : best_")
mutant("trees-forget-nothing", "draft/length/tree_shapes.hpp", TREE_SHAPES, "      eldest_mean_.fade(decay_);\n", "")
mutant("trees-of-equal-siblings", "draft/length/tree_shapes.hpp", TREE_SHAPES,
       "rank < 0 ? -1 : rank - 1)", "rank < 0 ? -1 : 0)")

mutant = promise("a policy takes the trunk and the spares of the least time per token")
SPARE_SHAPES = "tests/draft/length/spare_shapes"
mutant("spares-without-draft-cost", "draft/length/cost_optimal_length.hpp", SPARE_SHAPES,
       "costs_(nodes, trunk.length)", "costs_(nodes, 0)")
mutant("spares-of-free-tokens", "draft/length/cost_optimal_length.hpp", SPARE_SHAPES,
       "costs_(nodes, trunk.length)", "costs_(trunk.length, trunk.length)")
mutant("spares-of-bare-trunks", "draft/length/cost_optimal_length.hpp", SPARE_SHAPES,
       "      if constexpr (counts_nodes) consider_others(trunk, best);\n", "")
mutant("spares-at-the-context-only", "draft/length/spare_shapes.hpp", SPARE_SHAPES,
       "if (!after_trunk) return 0;", "if (!after_trunk || (depth > 0 && rank > 0)) return 0;")
mutant("spares-after-spares", "draft/length/spare_shapes.hpp", SPARE_SHAPES, "      if (!after_trunk) return 0;\n", "")
mutant("spares-count-hits-as-survival", "draft/length/spare_shapes.hpp", SPARE_SHAPES,
       "[](Index rank) { return rank > 0; }", "[](Index rank) { return rank < 0; }")
mutant("spares-of-the-latest-gamma", "draft/length/cost_optimal_length.hpp", SPARE_SHAPES, "limits_.nodes = std::max(limits_.nodes, reach.nodes);", "limits_.nodes = reach.nodes;")
mutant("spares-never-probed", "draft/length/cost_optimal_length.hpp", SPARE_SHAPES,
       "!costs_.allow(budget_, probe_loss_)", "probe_loss_ < 1e9")
mutant("spares-probed-for-free", "draft/length/cost_optimal_length.hpp", SPARE_SHAPES,
       "costs_.allow(budget_, probe_loss_)", "costs_.allow(budget_, 0 * probe_loss_)")
mutant("spares-beyond-gamma", "draft/length/cost_optimal_length.hpp", SPARE_SHAPES,
       "asked_ = std::min(plan.size(), reach.nodes);", "asked_ = plan.size();")
mutant("spares-without-their-shape", "draft/strategies/spares.hpp", SPARES, "if constexpr (follows_policy) plan_.take(policy_->shape());", "")

mutant = promise("shares of spares are those of their depth, where that is known")
mutant("shares-of-all-depths", "draft/length/spare_shares.hpp", "tests/draft/length/spare_shares",
       "here[k].with(all, depth_weight)", "all")
mutant("shares-that-rise", "draft/length/spare_shares.hpp", "tests/draft/length/spare_shares",
       "      if (static_cast<Index>(k) >= offered) continue;\n", "")
mutant("shares-never-outvoted", "draft/length/spare_shares.hpp", "tests/draft/length/spare_shares",
       "for (FadingMean& mean : means_) mean.limit(stops);", "for (std::size_t k = 0; k < ranks; ++k) means_[k].limit(stops);")
mutant("shares-not-forgotten", "draft/length/spare_shares.hpp", "tests/draft/length/spare_shares",
       "      here[k].fade(decay_);\n", "")

mutant = promise("a probe costs a share of the time, and rests")
mutant("probe-without-rest", "draft/length/probe_budget.hpp", "tests/draft/length/probe_budget", "return rest_ >= least_rest;", "return true;")
mutant("probe-for-nothing", "draft/length/probe_budget.hpp", "tests/draft/length/probe_budget", "    earned_ = 0;\n", "")

STEP_COSTS = "tests/draft/length/step_costs"
mutant = promise("drafts are timed by their depth, and alone")
mutant("step-costs-by-nodes", "draft/length/step_costs.hpp", STEP_COSTS, "draft_.add(step.depth(),", "draft_.add(step.drafted,")
mutant("step-costs-of-prompts", "draft/length/step_costs.hpp", STEP_COSTS, "if (step.fed != step.drafted + 1) return;", "")
mutant("step-costs-of-catching-up", "draft/length/step_costs.hpp", STEP_COSTS,
       "if (step.asked == 0 || !after_a_draft) return;", "if (step.asked == 0) return;")
mutant("step-costs-soon-forgotten", "draft/length/step_costs.hpp", STEP_COSTS, "idle_ < 8 || idle_ % 8 == 0", "true")
mutant("step-costs-of-nothing-found", "draft/length/step_costs.hpp", STEP_COSTS, "depth == 0 ? vain_(0)", "depth == 0 ? 0")

CATCHING_UP = f"{STEP_COSTS} {OPTIMAL}"
STEP_COSTS_HPP = "draft/length/step_costs.hpp"
mutant = promise("what a drafter must catch up with is part of the price of a probe, and a probe that pays goes on")
mutant("catching-up-for-free", STEP_COSTS_HPP, CATCHING_UP, "budget.affords(loss + catching_up())", "budget.affords(loss)")
mutant("catching-up-for-free-early", EARLY_HPP, EARLY, "!costs_.allow(budget_, loss_of_probe())", "!budget_.affords(loss_of_probe())")
mutant("catching-up-for-free-optimal", "draft/length/cost_optimal_length.hpp", f"{OPTIMAL} {SPARE_SHAPES}", "!costs_.allow(budget_, probe_loss_)", "!budget_.affords(probe_loss_)")
mutant("catching-up-measured-once", STEP_COSTS_HPP, STEP_COSTS, "int to_measure_ = 2;", "int to_measure_ = 1;")
mutant("catching-up-always-measured-twice", STEP_COSTS_HPP, STEP_COSTS, "cost <= own ? 0", "cost < -1e9 ? 0")
mutant("catching-up-not-measured-early", STEP_COSTS_HPP, STEP_COSTS, "    if (idle_ > 0 && to_measure_ > 0) return idle_ >= least_pause;\n", "")
mutant("catching-up-of-a-stall", STEP_COSTS_HPP, STEP_COSTS, "std::min(last_.per_step, before_.per_step)", "last_.per_step")
mutant("catching-up-never-again", STEP_COSTS_HPP, CATCHING_UP, "std::max(1.0, std::log(pause / known))", "1.0")
mutant("catching-up-after-long-pauses-only", STEP_COSTS_HPP, STEP_COSTS, "    if (run_ == longest_probe) last_.pause", "    if (run_ < 0) last_.pause")
mutant("catching-up-for-ages", STEP_COSTS_HPP, STEP_COSTS, "std::clamp(cost / steps(idle_), 0.0, plain())", "std::max(cost / steps(idle_), 0.0)")
mutant("on-again-without-a-probe", "draft/length/cost_optimal_length.hpp", OPTIMAL, "&& (tried || best_.size() > 0)", "&& (true || tried)")
mutant("on-again-without-a-probe-early", EARLY_HPP, EARLY, "if (drafts_) decide();  //", "decide();  //")
mutant("a-probe-ends-while-it-pays", "draft/length/cost_optimal_length.hpp", OPTIMAL, "if (probed) go_on_probing();", "")
mutant("a-probe-ends-while-it-pays-early", EARLY_HPP, EARLY, "if (!drafts_ && budget_.pays(costs_.plain())) probe_steps_ = steps_of_probe();", "")
mutant("a-probe-pays-by-the-last", "draft/length/probe_budget.hpp", "tests/draft/length/probe_budget", "    tokens_ = cost_ = 0;\n", "")

PLAN = "tests/draft/length/shape_plan"
mutant = promise("a plan grows by the token that adds most, where its family says that it may")
mutant("plan-deeper-than-its-trunk", "draft/length/shape_plan.hpp", PLAN, "if (node(parent).depth >= plan_.trunk) return;", "")
mutant("plan-of-only-children", "draft/length/shape_plan.hpp", PLAN, "    open(chances, parent);\n    open(chances, plan_.size() - 1);", "    open(chances, plan_.size() - 1);")
mutant("plan-of-childless-others", "draft/length/shape_plan.hpp", PLAN, "    open(chances, parent);\n    open(chances, plan_.size() - 1);", "    open(chances, parent);")
mutant("plan-in-any-order", "draft/length/shape_plan.hpp", PLAN, "    std::push_heap(open_.begin(), open_.end());\n", "")
mutant("plan-forgets-its-others", "draft/length/shape_plan.hpp", PLAN, "    detail::append(parents, others);\n", "")
mutant("shapes-deeper-than-the-step", "draft/length/shape_plan.hpp", PLAN, "std::min(nodes, depth_)", "depth_")

LINE_SHAPES = "tests/draft/length/line_shapes"
mutant = promise("lines are as long as the drafter proposes them")
mutant("lines-always-proposed", "draft/length/line_shapes.hpp", LINE_SHAPES, "[static_cast<std::size_t>(i)] = proposed;", "[static_cast<std::size_t>(i)] = 1;")
mutant("lines-never-outvoted", "draft/length/line_shapes.hpp", LINE_SHAPES, "{ survival_.limit(steps); }", "{ (void)steps; }")

mutant = promise("a keyed draft is drawn by the numbers of each token's depth")
mutant("keyed-spares-depth", "draft/strategies/spares.hpp", "tests/verify/keyed",
       "const Token drawn = chance.draw(name, depth);",
       "const Token drawn = chance.draw(name, 0);")
mutant("keyed-second-trunk-depth", "draft/strategies/spares.hpp", "tests/verify/keyed", "second_depth_ = 1;", "second_depth_ = 0;")
mutant("keyed-siblings-depth", "draft/strategies/tree.hpp", "tests/verify/keyed",
       "count, depth(k), chance",
       "count, k + 1, chance")
mutant("keyed-line-depth", "draft/strategies/line.hpp", "tests/verify/keyed",
       "chance.draw(name, i)",
       "chance.draw(name, 0)")
FORCED = "tests/draft/forced_tokens"
mutant = promise("what is forced is proposed, and nothing else")
mutant("forced-of-two", "draft/forced_tokens.hpp", FORCED, "if (only) return std::nullopt;", "")
mutant("forced-draft-stays", "draft/forced_tokens.hpp", FORCED, "(push, pop);\n    pop();", "(push, pop);")
mutant("forced-failure-stays", "draft/forced_tokens.hpp", FORCED, "undo_on_error(push, pop);", "undo_on_error(push, [] {});")
mutant("forced-after-what-is-refused", "draft/forced_tokens.hpp", FORCED, "[static_cast<std::size_t>(shown_)])) return false;", "[static_cast<std::size_t>(shown_)])) return true;")
mutant("forced-text-not-taken-back", "draft/forced_tokens.hpp", FORCED, "if (shown < shown_) processor_.pop(shown_ - shown);", "")
mutant = promise("a draft model is shown token 0 for what it does not know")
mutant("unknown-tokens-are-the-last", "token_ids.hpp", "tests/draft/model_drafter tests/draft/strategies/confident_tree",
       "x < vocab_size ? x : 0", "x < vocab_size ? x : static_cast<Token>(vocab_size - 1)")
mutant("model-drafter-shown-unknown-tokens", "draft/cached_draft.hpp", "tests/draft/model_drafter",
       ".tokens = tokens_in_vocabulary(rest, vocab_size, replaced)",
       ".tokens = rest")
mutant("target-fed-unknown-tokens", "loop/feed_buffer.hpp", "tests/loop/sequence tests/law_tree_loop",
       "tokens_.push_back(x < vocab_size ? x : Token{0});", "tokens_.push_back(x);")

RETOKENIZED, TOKENIZED = "tests/draft/retokenized_drafter", "text/text_tokenizer.hpp"
mutant = promise("what a model of another tokenizer writes is proposed in the target's tokens, after the committed text")
mutant("retokenized-line-forgotten", "draft/retokenized_drafter.hpp", RETOKENIZED, "      read_.push_back(draft.tokens.front());\n", "      read_.back() = draft.tokens.front();\n")
mutant("retokenized-drawn-at-one-place", "draft/retokenized_drafter.hpp", RETOKENIZED, "detail::stand_at(chance, position++);", "detail::stand_at(chance, position);")
mutant("retokenized-after-a-merge", TOKENIZED, RETOKENIZED, "if (at + piece.size() > before.size()) return;", "if (false) return;")
mutant("retokenized-cache-of-other-tokens", "draft/retokenized_drafter.hpp", RETOKENIZED, "    drafter_.truncate(detail::common_length(text, read_));\n", "")
mutant("retokenized-text-of-before", "draft/retokenized_drafter.hpp", RETOKENIZED, "    unchanged_ = std::min(unchanged_, text_.bytes().size());\n", "")
mutant("retokenized-without-window", TOKENIZED, RETOKENIZED, "(ends_[kept - 1] + window > unchanged ||", "(ends_[kept - 1] > unchanged ||")
mutant("retokenized-from-amid-a-character", TOKENIZED, RETOKENIZED, "(ends_[kept - 1] + window > unchanged || !begins_character(text, ends_[kept - 1]))", "ends_[kept - 1] + window > unchanged")
mutant("retokenized-text-from-amid-a-character", TOKENIZED, RETOKENIZED, "(ends_[end - 1] + window > bytes_.size() || !begins_character(bytes_, ends_[end - 1]))", "ends_[end - 1] + window > bytes_.size()")
mutant("retokenized-half-characters", "text/token_bytes.hpp", RETOKENIZED, "return text.size() - incomplete_utf8(text);", "return text.size();")
mutant("retokenized-other-beginning", TOKENIZED, RETOKENIZED, " || !text.starts_with(before)", "")
mutant("retokenized-too-many", TOKENIZED, RETOKENIZED, " || tokens.size() == most", "")
mutant("retokenized-text-of-a-failed-call", TOKENIZED, RETOKENIZED, "    size_ = 0;  // nothing is known if the tokenizer throws\n", "")
mutant("retokenized-encoder-unchecked", TOKENIZED, RETOKENIZED, "TokenIds(tokens_).segment(first, std::ssize(tokens_) - first)", "TokenIds(tokens_).segment(first, 0)")

mutant = promise("that a drafter is not steady is known through whatever wraps it")
mutant("turns-taken-for-steady", "draft/fallback_drafter.hpp", "tests/law_concepts", "sizeof...(D) == 1 && (is_steady", "(is_steady")
mutant("member-taken-for-steady", "draft/fallback_drafter.hpp", "tests/law_concepts",
       "sizeof...(D) == 1 && (is_steady<std::remove_reference_t<D>> && ...)", "sizeof...(D) == 1")
mutant("audited-taken-for-steady", "testing/audited_drafter.hpp", "tests/law_concepts", "steady = is_steady<Drafter>;", "steady = true;")
mutant("inner-drafter-taken-for-steady", "loop/cascade_drafter.hpp", "tests/law_concepts",
       "steady = is_steady<std::remove_reference_t<D>>;", "steady = true;")

STORE, STORE_TEST = "draft/from_text/datastore.hpp", "tests/draft/from_text/datastore"
RETRIEVAL, RETRIEVAL_TEST = "draft/from_text/datastore_drafter.hpp", "tests/draft/from_text/datastore_drafter"
mutant = promise("retrieval proposes what followed the longest match in its documents, and reads nothing outside its file")
mutant("store-sorted-by-one-token", STORE, STORE_TEST, "static_cast<std::size_t>(sorted_depth)));", "std::size_t{1}));")
mutant("store-sorted-by-some-tokens", STORE, STORE_TEST, "static_cast<std::size_t>(sorted_depth)));", "static_cast<std::size_t>(sorted_depth / 4)));")
mutant("store-match-beyond-the-order", STORE, STORE_TEST, "sorted_depth - 1}", "sorted_depth}")
mutant("store-occurrence-left-out", STORE, STORE_TEST, "return {first - begin, last - begin, places.length + 1};",
       "return {first - begin + (last - first > 2), last - begin, places.length + 1};")
mutant("store-match-too-short", STORE, STORE_TEST, "best = places, low = m;", "best = places, low = m, high = m;")
mutant("store-match-without-a-token-after-it", STORE, STORE_TEST, "return places.count() > 0 &&\n           next(",
       "return places.count() > 0 ||\n           next(")
mutant("store-proposes-separators", STORE, STORE_TEST, "if (token != separator) visit", "visit")
mutant("store-reads-beyond-the-text", STORE, STORE_TEST, "return at < tokens_.size() ? tokens_[at] : separator;",
       "return at <= tokens_.size() ? tokens_[at] : separator;")
mutant("store-of-any-file", STORE, STORE_TEST, " ||\n        header.version != mine.version", "")
mutant("store-of-a-cut-file", STORE, STORE_TEST, "if (file.size() != expected)", "if (file.size() > expected)")
mutant("retrieval-from-shorter-matches", RETRIEVAL, RETRIEVAL_TEST, "return places.length < options_.min_match ?", "return places.length + 1 < options_.min_match ?")
mutant("retrieval-asks-for-more-than-all", RETRIEVAL, RETRIEVAL_TEST, "static_cast<double>(best.count) < options_.min_share", "static_cast<double>(best.count) <= options_.min_share")
mutant("retrieval-share-of-all", RETRIEVAL, RETRIEVAL_TEST, "best.followed += count;", "best.followed = count;")
mutant("retrieval-highest-id-first", RETRIEVAL, RETRIEVAL_TEST, "if (count > best.count)", "if (count >= best.count)")
mutant("retrieval-of-the-context-alone", RETRIEVAL, RETRIEVAL_TEST, "detail::append(strings_, more);", "")
mutant("retrieval-longest-match-alone", RETRIEVAL, RETRIEVAL_TEST, "for (Index m = longest(place).length; m >= options_.min_match; --m)",
       "for (Index m = longest(place).length; m >= std::max(options_.min_match, longest(place).length); --m)")
mutant("retrieval-likeliest-twice", RETRIEVAL, RETRIEVAL_TEST, "if (x != best.token) visit(x, count);", "visit(x, count);")
