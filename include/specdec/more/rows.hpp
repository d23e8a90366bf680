// Rows for engines that have them in another form: over other ids, as lists of structs, with a token drawn from each already, or
// elsewhere. And the entropy of a row.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/rows/entropy.hpp"
#include "specdec/more/rows/fetched.hpp"
#include "specdec/more/rows/list_row.hpp"
#include "specdec/more/rows/mapped.hpp"
#include "specdec/more/rows/sampled.hpp"
