// A project that uses specdec from outside: one rule, called by hand.
// SPDX-License-Identifier: MIT
#include "by_hand.hpp"

int main() { return accepted_by_hand() == 2 ? 0 : 1; }
