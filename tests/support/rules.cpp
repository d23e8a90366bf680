// The rules on rows in memory, compiled once for all tests.
// SPDX-License-Identifier: MIT
#include "support/rules.hpp"

namespace support {

template specdec::Verdict AnyVerifier::operator()(const RowMajor<float>&, const RowMajor<float>&,
                                                  specdec::TokenIds, std::mt19937_64&);
template specdec::Verdict AnyVerifier::operator()(const RowMajor<double>&, const RowMajor<double>&,
                                                  specdec::TokenIds, std::mt19937_64&);
template specdec::Verdict AnyVerifier::operator()(const RowMajor<double>&, const RowMajor<double>&,
                                                  specdec::TokenIds, specdec::RandomChance<std::mt19937_64>&);
template specdec::Verdict AnyVerifier::operator()(const RowMajor<double>&, const RowMajor<double>&,
                                                  specdec::TokenIds, specdec::testing::Enumerator&);

}  // namespace support
