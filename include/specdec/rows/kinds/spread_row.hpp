// Rows of which only a part is here. The others who read them, the other ranks, say, have the rest.
//
// What is summed over such a row is summed by each over its own part, so that one number crosses. The row offers that by a
// member spread(), which all of them ask together:
//
//   spread().sum(start, end, f)          Σ f(part, from, to) over all parts that have any of tokens start..end − 1: to this
//                                        part they are from..to − 1. part(row) is what is here of any row
//   spread().draw(u, row)                the token that u of [0, 1) draws from the row
//   spread().first_to_arrive(row, f)     the token of the first of all arrivals f(part of the row, its first token)
//
// where a row is one that is made of such rows. It tells what it is made of by
//
//   made_of(part)                        this row, made of part(row) in place of each row that it is made of
//
// and offers spread(), which is that of one of them.
#pragma once

namespace specdec {

/// A row of which only a part is here.
template <class R>
concept SpreadRow = requires(const R& row) { row.spread(); };

}  // namespace specdec
