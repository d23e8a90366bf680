mutant = promise("a draft goes on at a row that is just sure enough")
mutant("confident-beyond-its-least", "draft/draft_length.hpp", "tests/draft/draft_length",
       "return row.probability(row.argmax()) >= least_;", "return row.probability(row.argmax()) > least_;")
mutant("entropy-short-of-its-most", "draft/draft_length.hpp", "tests/draft/draft_length",
       "return entropy(row) <= most_;", "return entropy(row) < most_;")

mutant = promise("a policy learns from nothing that it did not ask for")
mutant("cost-optimal-observes-unasked", "draft/cost_optimal_length.hpp", "tests/draft/cost_optimal_length",
       "    if (estimates_.empty()) return;  // next() was never asked\n", "")

mutant = promise("costs that have faded are guessed, and those that have not are known")
mutant("costs-fade-late", "analysis/cost_curve.hpp", "tests/analysis/cost_curve", "faded = 0.1;", "faded = 0.01;")
mutant("costs-fade-early", "analysis/cost_curve.hpp", "tests/analysis/cost_curve", "faded = 0.1;", "faded = 0.2;")
mutant("fading-mean-limit-grows", "analysis/cost_curve.hpp", "tests/analysis/cost_curve",
       "if (weight_ > values) fade(values / weight_);", "fade(values / weight_);")

mutant = promise("a running survival holds what is seen against what the positions before suggest")
mutant("running-guess-too-heavy", "draft/running_survival.hpp", "tests/draft/running_survival",
       "guess_weight = 3;", "guess_weight = 30;")
mutant("running-survival-not-falling", "draft/running_survival.hpp", "tests/draft/running_survival",
       "here * std::min(1.0, here / before)", "here")
mutant("running-limit-of-proposals-alone", "draft/running_survival.hpp", "tests/draft/running_survival",
       "      position.survived.limit(steps);\n", "")
