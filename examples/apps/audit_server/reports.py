# SPDX-License-Identifier: MIT
"""What an audit has found, in words."""

from http_json import ServerError


def report_text(bets, alpha, remarks):
    """Prints the report of an audit of texts. The status: 0, 1 if they convict, 2 if they are not independent."""
    whole = bets.report()
    if whole.unreadable == whole.tokens:
        raise ServerError(f"none of {whole.tokens} tokens has a row, or numbers, that are probabilities")
    if bets.blind == whole.tokens:
        raise ServerError(f"none of {whole.tokens} lists has two tokens or more. A single one may be there because it came")
    head(f"{whole.tokens} tokens", bets, alpha)
    print(f"  all places: evidence 10^{whole.evidence:.2f}", *str(whole).splitlines()[1:], sep="\n")
    for where, report in bets.groups.parts():
        print(f"  {where}: {report.tokens} tokens, evidence 10^{report.evidence:.2f}")
    singles = [(f"token {token}", bet) for token, bet in bets.named.items() if bet.by_counts.expected]
    singles += [("tokens that no list has", bets.unlisted)] if bets.unlisted.came else []
    singles += [("texts go on as earlier ones", bets.again)] if bets.again.expected else []
    for name, bet in singles:
        print(f"  {name}: {bet}")
    if bets.left_out:
        remarks = [*remarks, f"{bets.left_out} places without a list were left out"]
    return verdict(bets, alpha, remarks)


def report_pairs(bets, alpha, remarks):
    """Prints the report of a comparison of texts. The status as above."""
    head(f"{bets.pairs} pairs", bets, alpha)
    for name, gambler in bets.gamblers.items():
        print(f"  {name}: 10^{gambler.evidence:.2f}")
    for name, repeats in ("with", bets.on_texts), ("without", bets.off_texts):
        if repeats.most():
            remarks = [*remarks, f"{name} speculation {repeats}"]
    return verdict(bets, alpha, remarks)


def head(count, bets, alpha):
    found = "the texts are not independent" if bets.depends(alpha) else bets.found(alpha)
    print(f"{count}, evidence 10^{bets.evidence:.2f}, at most 10^{bets.largest_evidence:.2f}: {found}")


def verdict(bets, alpha, remarks):
    for remark in remarks:
        print("  " + remark)
    if bets.depends(alpha):
        print("NO VERDICT: the audit needs independent texts, and these repeat one another. Does the server ignore the field seed, answer "
              "from a store, or mark its texts (a watermark)? Then texts without speculation repeat one another, too. If those do "
              "not, speculation accepts nearly all drafts")
        return 2
    if bets.convicts(alpha):
        print(f"CONVICTED. A right server ever reaches this with probability {alpha:g} at most")
        return 1
    print("not convicted")
    return 0
