# SPDX-License-Identifier: MIT
# Prints the tables of bench/report from Google Benchmark's JSON, which has one field per line and one object per run.

function value(line) {
  sub(/^[^:]*: */, "", line)
  gsub(/[",]/, "", line)
  return line
}

FNR == 1 { build = FILENAME ~ /\/portable-[^\/]*$/ ? "portable" : "native" }
/^ *"name":/ { name = build " " value($0) }
/^ *"run_type":/ { counts = value($0) == "iteration" }
/^ *"cpu_time":/ && counts { elapsed[name, runs[name]++] = value($0) + 0 }
/^ *"rounds":/ && counts { rounds[name] = value($0) + 0 }
/^ *"rounds_se":/ && counts { rounds_se[name] = value($0) + 0 }
/^ *"(alpha|accepted)":/ && counts {
  field = $1
  gsub(/[":]/, "", field)
  counter[name, field] = value($0) + 0
}

# Median time of a bench in µs; "" where it did not run.
function median(of,    n, i, j, x, sorted) {
  n = runs[of]
  if (!n) return ""
  for (i = 0; i < n; ++i) {
    x = elapsed[of, i]
    for (j = i; j > 0 && sorted[j - 1] > x; --j) sorted[j] = sorted[j - 1]
    sorted[j] = x
  }
  return n % 2 ? sorted[(n - 1) / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2
}

function bench(what, rule, kind, order, vocab) {
  return what "_" rule "/gamma:8/vocab:" (vocab ? vocab : 128256) "/" kind "/" order "/accept:70/cold"
}

function time(what, rule, kind, order, vocab) { return median("native " bench(what, rule, kind, order, vocab)) }

function ratio(a, b) { return a == "" || b == "" || b == 0 ? "" : a / b }

# Two significant figures; all figures before the decimal point.
function number(x) {
  if (x == "") return "–"
  if (x >= 10) return sprintf("%.0f", x)
  if (x >= 1) return sprintf("%.1f", x)
  if (x >= 0.1) return sprintf("%.2f", x)
  return sprintf("%.3f", x)
}
function us(x) { return x == "" ? "–" : number(x) " µs" }
function times_as(x) { return x == "" ? "–" : number(x) " ×" }

function words(name) { gsub(/_/, " ", name); return name }
function by(order) { return order == "ordered" ? "by frequency" : "shuffled" }

function row(rule, kind, order, like,    v, f, r) {
  v = time("verify", rule, kind, order)
  f = time("floor", rule, like ? like : kind, order)
  r = time("reference", rule, like ? like : kind, order)
  printf "| %s, %s | %s | %s | %s | %s | %s |\n", words(rule), (kind == "float" ? "" : words(kind) ", ") by(order),
    us(v), us(f), us(r), number(ratio(v, f)), times_as(ratio(r, v))
}

function target(what, limit, measured, at_least) {
  printf "| %s | %s %s | %s | %s |\n", what, at_least ? "≥" : "≤", limit, number(measured),
    (measured == "" ? "not measured" : (at_least ? measured >= limit : measured <= limit) ? "yes" : "**no**")
}

END {
  split("ordered shuffled", orders, " ")
  split("token block greedy_block", rules, " ")
  split("logits logits_lse sampled half", kinds, " ")
  split("1000 32000 128256 256000", vocabularies, " ")

  print "| rule, order of the ids | verify | floor | plain | verify / floor | plain / verify |"
  print "| --- | --- | --- | --- | --- | --- |"
  for (r = 1; r <= 3; ++r) for (o = 1; o <= 2; ++o) row(rules[r], "float", orders[o])
  for (k = 1; k <= 4; ++k)
    for (r = 1; r <= 2; ++r)
      for (o = 1; o <= 2; ++o) row(rules[r], kinds[k], orders[o], kinds[k] == "sampled" ? "float" : "")

  print "\n| beside | by frequency | shuffled |"
  print "| --- | --- | --- |"
  for (r = 1; r <= 2; ++r) {
    printf "| %s on logits / one log-sum-exp of each row it visits |", rules[r]
    for (o = 1; o <= 2; ++o)
      printf " %s |", number(ratio(time("verify", rules[r], "logits", orders[o]),
                                   time("lse", rules[r], "logits", orders[o])))
    print ""
  }
  printf "| greedy block without live modifications / block |"
  for (o = 1; o <= 2; ++o)
    printf " %s |", number(ratio(time("verify", "greedy_fresh", "float", orders[o]),
                                 time("verify", "block", "float", orders[o])))
  print ""
  for (r = 1; r <= 3; ++r) {
    printf "| %s without -march=native / with |", words(rules[r])
    for (o = 1; o <= 2; ++o) {
      name = bench("verify", rules[r], "float", orders[o])
      printf " %s |", number(ratio(median("portable " name), median("native " name)))
    }
    print ""
  }

  print "\n| lists of 50 tokens, vocabulary of | 1000 | 32 000 | 128 256 | 256 000 |"
  print "| --- | --- | --- | --- | --- |"
  for (r = 1; r <= 2; ++r) {
    printf "| %s |", rules[r]
    for (v = 1; v <= 4; ++v) printf " %s |", us(time("verify", rules[r], "sparse", "ordered", vocabularies[v]))
    print ""
  }
  name = "native " bench("verify", "block", "float", "ordered")
  printf "\nAcceptance rate %s; block verification accepts %.1f of 8 tokens in the mean.\n", number(counter[name, "alpha"]),
    counter[name, "accepted"]

  if (targets != "yes") exit
  print "\n| aimed at | target | measured | met |"
  print "| --- | --- | --- | --- |"
  for (r = 1; r <= 2; ++r)
    for (o = 1; o <= 2; ++o) {
      rule = rules[r]
      order = orders[o]
      label = rule ", float, " order ": "
      verify = time("verify", rule, "float", order)
      target(label "verify / floor", order == "ordered" ? 0.05 : 0.30, ratio(verify, time("floor", rule, "float", order)))
      target(label "plain / verify", order == "ordered" ? 100 : 15,
             ratio(time("reference", rule, "float", order), verify), 1)
      name = "native " bench("verify", rule, "float", order)
      off = rounds_se[name] > 0 ? (rounds[name] - 1) / rounds_se[name] : ""
      printf "| %srounds per position | 1 ± 2 s.e. | %.3f ± %.3f | %s |\n", label, rounds[name], rounds_se[name],
        (off != "" && off >= -2 && off <= 2 ? "yes" : "**no**")
      target(rule ", logits, " order ": verify / lse of the rows visited", 1.2,
             ratio(time("verify", rule, "logits", order), time("lse", rule, "logits", order)))
      name = bench("verify", rule, "float", order)
      target(label "portable / native", 1.5, ratio(median("portable " name), median("native " name)))
    }
  for (o = 1; o <= 2; ++o)
    target("greedy block without live modifications / block, float, " orders[o], 1.3,
           ratio(time("verify", "greedy_fresh", "float", orders[o]), time("verify", "block", "float", orders[o])))
  for (r = 1; r <= 2; ++r)
    for (v = 1; v <= 4; ++v)
      target(rules[r] ", lists of 50, V = " vocabularies[v] ", µs", 3,
             time("verify", rules[r], "sparse", "ordered", vocabularies[v]))
}
