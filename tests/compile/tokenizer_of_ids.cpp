// must say: the tokenizer is no specdec::TokenBytes
// A tokenizer that returns a number.
// SPDX-License-Identifier: MIT
#include <specdec/more/text/text_stream.hpp>
#include <specdec/specdec.hpp>
#include <string>

#ifdef FIXED
using Answer = std::string;
#else
using Answer = int;
#endif

void use() {
  specdec::TextStream stream{[](specdec::Token) { return Answer{}; }};
}
