// The theory: closed forms, exact expectations and bounds.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/analysis/context_free_survival.hpp"
#include "specdec/analysis/enumerated_survival.hpp"
#include "specdec/analysis/keyed_agreement.hpp"
#include "specdec/analysis/sequoia_shape.hpp"
#include "specdec/analysis/speed_up.hpp"
#include "specdec/analysis/survival.hpp"
