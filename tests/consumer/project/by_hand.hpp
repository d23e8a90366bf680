// A separate translation unit. Its users need nothing of specdec.
// SPDX-License-Identifier: MIT
#pragma once

/// How many tokens of a draft of two are accepted. All must be.
int accepted_by_hand();
