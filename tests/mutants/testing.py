"""Mutants of what users test their own parts with."""

from mutants import promise

mutant = promise("the enumerator takes every branch with its probability")
mutant("enumerate-race-normaliser", "testing/enumerator.hpp", "tests/chance/race tests/law_lossless", ") / all;", ") / 1.0;")
mutant("enumerate-coin-inverted", "testing/enumerator.hpp", "tests/testing/enumerator tests/chance/race tests/law_lossless",
       "i == 0 ? p : 1 - p", "i == 0 ? 1 - p : p")
mutant("enumerate-last-choice-only", "testing/enumerator.hpp", "tests/testing/enumerator",
       "probability_ *= choice.probability;", "probability_ = choice.probability;")
mutant("enumerate-branch-skipped", "testing/enumerator.hpp", "tests/testing/enumerator",
       "possible_from(choice.outcome + 1)", "possible_from(choice.outcome + 2)")

mutant = promise("the proof harness tells a wrong law from a right one")
mutant("harness-blind", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "if (found.size <= check.tolerance) continue;", "if (found.size <= 1) continue;")
mutant("harness-forgives-missing-outputs", "testing/law.hpp", "tests/testing/law",
       "for (const auto& [tokens, p] : right) compare(tokens);", "")
mutant("harness-forgives-surplus-outputs", "testing/law.hpp", "tests/testing/law",
       "for (const auto& [tokens, p] : left) compare(tokens);", "")
mutant("harness-merges-hidden-state", "testing/law.hpp", "tests/testing/law", "return std::is_empty_v<V>;", "return true;")
mutant("enumerator-trusts-replays", "testing/enumerator.hpp", "tests/testing/enumerator",
       "if (depth_ != path_.size())", "if (false)")
mutant("chi-square-rare-dropped", "testing/chi_square.hpp", "tests/testing/chi_square",
       "!too_many && ", "(too_many || true) && ")
mutant("chi-square-impossible", "testing/chi_square.hpp", "tests/testing/chi_square", "report.impossible == 0 && ", "")
mutant("chi-square-fitted-for-nothing", "testing/chi_square.hpp", "tests/testing/chi_square", "(rare ? 0 : 1) - fitted;", "(rare ? 0 : 1);")
mutant("chi-square-blind", "testing/chi_square.hpp", "tests/testing/chi_square",
       "report.statistic <= report.threshold", "true")

mutant = promise("an audit convicts drafters whose q is not what was drawn from, and no others")
mutant("audit-ties-above", "testing/row_reading.hpp", "tests/testing/draft_audit tests/testing/row_reading",
       "(q > value_).select", "(q >= value_).select")
mutant("audit-not-randomised", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "const double v = uniform01(generator);", "const double v = 0.5;")
mutant("audit-flat-rows-count", "testing/row_reading.hpp", "tests/testing/draft_audit tests/testing/row_reading",
       "return equal_ < (1 - 1e-6) * total_ && powers_[squares] < 0.9;", "return true;")
mutant("audit-no-martingale", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "(exponents[k] - 1) * value + total", "exponents[k] * value + total")
mutant("audit-last-moment-only", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "likelier_ = std::max(likelier_, mixture(std::span(logs_).first(sharper)));",
       "likelier_ = mixture(std::span(logs_).first(sharper));")
mutant("audit-pairs-overlap", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "if (informative++ % 2 == 1)", "if (informative++ > 0)")
mutant("audit-pairs-unread", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "!rejected(report.order) && !rejected(report.pairs)", "!rejected(report.order)")
mutant("audit-ids-unread", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "rejected(report.ids) ? DraftFault::repeated : DraftFault::none", "DraftFault::none")
mutant("audit-ids-without-their-order", "testing/row_reading.hpp", "tests/testing/row_reading",
       "ids(middle) < x", "ids(middle) <= x")
mutant("audit-impossible-passes", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "if (x < 0 || !(specdec::probability(row, x) > 0)) ++impossible;", "if (x < 0) ++impossible;")
mutant("audit-unnormalised-passes", "testing/row_reading.hpp", "tests/testing/draft_audit tests/testing/row_reading",
       "std::abs(total_ - 1) <= 0.01 &&", "")
mutant("audit-kept-after-throw", "testing/draft_audit.hpp", "tests/testing/audited_drafter",
       "State next = state_;", "State& next = state_;")

mutant = promise("an audit of trees holds every token to its row, and is no part of the text")
mutant("audit-of-trees-blind", "testing/audited_drafter.hpp", "tests/testing/audited_drafter tests/testing/draft_audit",
       "    audit_.add(draft.rows, draft.tokens);\n",
       "")
mutant("audit-of-trees-unlimited", "testing/audited_drafter.hpp", "tests/testing/audited_drafter",
       "ask_drafter(drafter_, context, limits, source, keep_drafting...)",
       "ask_drafter(drafter_, context, DraftLimits{}, source, keep_drafting...)", endless=True)
mutant("audit-of-trees-keeps-verdicts", "testing/audited_drafter.hpp", "tests/testing/audited_drafter",
       "    drafter_.observe(target_rows, tokens, parents, verdict);\n",
       "")

mutant = promise("the harness checks what it is asked for, and no law of no numbers passes")
mutant("harness-passes-nan", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "if (found.size <= check.tolerance) continue;", "if (!(found.size > check.tolerance)) continue;")
mutant("harness-tolerates-more", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "double tolerance = 1e-12;", "double tolerance = 1e-7;")
mutant("harness-tolerance-fixed", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "if (found.size <= check.tolerance) continue;", "if (found.size <= 1e-12) continue;")
mutant("harness-seed-ignored", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "SplitMix64 generator(check.seed);", "SplitMix64 generator(1);")
mutant("harness-target-order-fixed", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "auto target = TableModel<Scalar>::random(vocab_size, check.order, generator);",
       "auto target = TableModel<Scalar>::random(vocab_size, 2, generator);")
mutant("harness-draft-order-fixed", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "auto draft = TableModel<Scalar>::random(vocab_size, check.order, generator);",
       "auto draft = TableModel<Scalar>::random(vocab_size, 2, generator);")
mutant("harness-length-fixed", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "{.max_new_tokens = check.max_new_tokens, .gamma = gamma}", "{.max_new_tokens = 5, .gamma = gamma}")

mutant = promise("an audit keeps its false-alarm rate over all of its tests")
mutant("audit-acquits-on-few-tokens", "testing/draft_audit_report.hpp", "tests/testing/draft_audit",
       "return !convicted() && informative >= least_informative;", "return !convicted() && informative > 0;")
mutant("audit-rate-not-shared", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "options_.false_alarm / 5;", "options_.false_alarm;")

mutant = promise("a check of nothing does not pass, and no table or law is taken for one that it cannot be")
mutant("check-of-no-models", "testing/check_lossless.hpp", "tests/testing/check_lossless", "if (check.models < 1) invalid", "if (false) invalid")
mutant("check-of-no-sizes", "testing/check_lossless.hpp", "tests/testing/check_lossless", "if (check.vocab_sizes.empty()) invalid", "if (false) invalid")
mutant("check-of-no-lengths", "testing/check_lossless.hpp", "tests/testing/check_lossless", "if (check.gammas.empty()) invalid", "if (false) invalid")
mutant("check-of-no-tokens", "testing/check_lossless.hpp", "tests/testing/check_lossless", "if (check.max_new_tokens < 1)", "if (false)")
mutant("check-lets-all-pass", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "if (!(check.tolerance >= 0 && check.tolerance < 1))", "if (false)")
mutant("threshold-of-nothing", "testing/chi_square.hpp", "tests/testing/chi_square", "if (!(false_alarm > 0 && false_alarm < 1))", "if (false)")
mutant("order-below-zero", "testing/table_model.hpp", "tests/testing/table_model", "if (order < 0) specdec", "if (false) specdec")
mutant("table-beyond-memory", "testing/table_model.hpp", "tests/testing/table_model", "if (rows > most)", "if (false)")
mutant("context-unlooked-up", "testing/table_model.hpp", "tests/testing/table_model", "if (x < 0 || x >= vocab_size()) specdec", "if (false) specdec")
mutant("law-without-end", "testing/law.hpp", "tests/testing/law", "if (tokens > longest_output)", "if (false)")

mutant = promise("a table's rows of a tree depend on the way to a token, and the context becomes what is kept")
mutant("table-tree-row-of-token-alone", "testing/table_model.hpp", "tests/testing/table_model",
       "row + unit * state(context_, missing)", "row")
mutant("table-tree-row-backwards", "testing/table_model.hpp", "tests/testing/table_model",
       "node = parents_[static_cast<std::size_t>(node)], --missing", "--node, --missing")
mutant("table-tree-looks-too-far-back", "testing/table_model.hpp", "tests/testing/table_model",
       "node >= 0 && missing > 0;", "node >= 0;")
mutant("table-tree-numbered-anew", "testing/table_model.hpp", "tests/testing/table_model",
       "check_parents(tokens, parents, std::ssize(tree_))", "check_parents(tokens, parents, 0)")
mutant("table-tree-left-open", "testing/table_model.hpp", "tests/testing/table_model",
       "forget_tree();\n  }\n\n  void truncate", "}\n\n  void truncate")
mutant("table-tree-outlives-rollback", "testing/table_model.hpp", "tests/testing/table_model",
       "forget_tree();\n    const auto kept", "const auto kept")
mutant("table-tree-joined-by-line", "testing/table_model.hpp", "tests/testing/table_model",
       "if (!tree_.empty())", "if (false)")

mutant = promise("rules for trees are held against trees, of which every row is what a token was drawn from")
mutant("form-of-a-line", "testing/form_drafter.hpp", "tests/testing/check_lossless",
       "form.parents.push_back(static_cast<Index>(below(static_cast<std::size_t>(k) + 1)) - 1);", "form.parents.push_back(k - 1);")
mutant("elders-not-taken-out", "testing/form_drafter.hpp", "tests/law_trees",
       "for (const Token x : elders) q[x] = 0;", "")
mutant("chosen-token-again", "testing/form_drafter.hpp", "tests/law_trees",
       "if (free(x) && (best < 0 ||", "if ((best < 0 ||")

EXPLAINED = "tests/testing/divergence"
mutant = promise("two greedy texts that part are explained by numbers only where numbers do it")
mutant("divergence-always-numbers", "testing/divergence.hpp", EXPLAINED, "const double allowed = out.moved + out.rounding;", "const double allowed = 1;")
mutant("divergence-without-rounding", "testing/divergence.hpp", EXPLAINED, "const double allowed = out.moved + out.rounding;", "const double allowed = out.moved;")
mutant("divergence-without-call-shapes", "testing/divergence.hpp", EXPLAINED, "const double allowed = out.moved + out.rounding;", "const double allowed = out.rounding;")
mutant("divergence-of-infinite-logits", "testing/divergence.hpp", EXPLAINED, "if (!std::isfinite(number(call))) continue;", "")
mutant("divergence-sides-confused", "testing/divergence.hpp", EXPLAINED, ": left_fits             ? Kind::right", ": left_fits             ? Kind::left")
mutant("divergence-rounding-of-negative-logits", "testing/divergence.hpp", EXPLAINED, "2 * precision * std::abs(logit)", "2 * precision * logit")
mutant("divergence-asks-the-last-row-only", "testing/divergence.hpp", EXPLAINED, "const auto numbers = specdec::numbers(logits).row(last_ - (end - rows));", "const auto numbers = specdec::numbers(logits).row(rows - 1);")
mutant("divergence-of-prompts-apart", "testing/divergence.hpp", EXPLAINED, "last_ - row < prompt_ ? 0", "last_ - row < 0 ? 0")

mutant = promise("a form of a tree is cut by its own numbers")
mutant("form-fills-empty-places", "testing/form_drafter.hpp", "tests/law_tree_loop",
       "static_cast<Index>(k) >= limits.nodes", "size() >= limits.nodes")

CHECKED = "tests/testing/check_model"
mutant = promise("a model that is wrong is convicted in words, and one that is right passes")
mutant("model-check-without-the-measure", "testing/check_model.hpp", CHECKED, "      begins_empty();\n", "")
mutant("model-check-without-last-tokens", "testing/check_model.hpp", CHECKED, "      rows_follow_their_tokens();\n", "")
mutant("model-check-blind", "testing/check_model.hpp", CHECKED, "return difference_of_rows(a, b) <= options_.tolerance; }", "return true; }")
mutant("model-check-generous", "testing/check_model.hpp", CHECKED, "if (difference <= options_.tolerance) report.difference", "if (difference <= options_.tolerance + 0.02) report.difference")
mutant("model-check-never-rolls-back", "testing/check_model.hpp", CHECKED, "for (CheckedSequence& sequence : sequences_) roll_back(sequence);", "")
mutant("model-check-compares-nothing", "testing/check_model.hpp", CHECKED, "else wrong.push_back(&seen);", "")
mutant("model-check-without-trees", "testing/check_model.hpp", CHECKED, "if (trees && (sequence->open() > 0 || (can_be_dropped && coin())))", "if (false)")
mutant("model-check-trees-never-grow", "testing/check_model.hpp", CHECKED, "else if (below(3) > 0) keep_a_path(sequence);", "else keep_a_path(sequence);")
mutant("model-check-trees-alone", "testing/check_model.hpp", CHECKED, "if (trees && (sequence->open() > 0 || (can_be_dropped && coin())))", "if (trees && chosen.size() == 1)")
mutant("model-check-never-too-long", "testing/check_model.hpp", CHECKED, "(coin() ? -below(4) : below(3))", "(coin() ? -below(4) : 0)")
mutant("model-check-paths-forgotten", "testing/check_model.hpp", CHECKED, "sequence.kept_path = true;", "")
mutant("model-check-few-texts", "testing/check_model.hpp", CHECKED, "n < 32 && !last_matters", "n < 8 && !last_matters")
mutant("model-check-without-company", "testing/check_model.hpp", CHECKED, "(chosen.empty() || coin())) chosen", "chosen.empty()) chosen")
mutant("model-check-uncut-is-cut", "testing/check_model.hpp", CHECKED, "    if (length > 0) return;\n    uncut.clear();", "    uncut = context;\n    if (length > 0) return;")
mutant("model-check-one-early-unnamed", "testing/check_model.hpp", CHECKED, 'return "it is the row one token earlier";', "return {};")
mutant("model-check-leaves-contexts", "testing/check_model.hpp", CHECKED, "tell(out, [&] { empty(); });", "")
mutant("model-check-throws-as-it-ends", "testing/check_model.hpp", CHECKED, "tell(out, [&] { empty(); });", "empty();")
mutant("model-check-all-tells", "testing/check_model.hpp", CHECKED, "seen.context.size() > 1 && differs(", "seen.context.size() > 1 || differs(")
mutant("model-check-rollback-of-nothing-shown", "testing/check_model.hpp", CHECKED, "report.shows_rollback = differs(seen.uncut);", "report.shows_rollback = true;")
mutant("model-check-difference-forgotten", "testing/check_model.hpp", CHECKED, "if (!(difference <= largest)) largest = difference;", "largest = difference;")
