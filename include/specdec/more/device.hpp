// Verification where the logits lie: the pieces that a kernel calls, and their loop on a CPU. They were tested on the CPU only, by
// that loop, and compiled for GPUs; none has run on one. Nothing here launches a kernel.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/device/requests.hpp"
