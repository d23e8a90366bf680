// must say: the tokenizer does not return the bytes of a specdec::Token, as a std::string: see specdec::TokenBytes
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
