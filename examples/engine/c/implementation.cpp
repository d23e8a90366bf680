// The C interface of the library, compiled: the one file in C++ that a program in C needs.
// SPDX-License-Identifier: MIT
#define SPECDEC_C_IMPLEMENTATION
#include <specdec/more/c/requests.hpp>
#include <specdec/more/c/specdec.hpp>
