// What nearly every test includes, compiled once for all tests.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/analysis.hpp>
#include <specdec/measure/stats_json.hpp>
#include <specdec/model/ngram.hpp>
#include <specdec/ranks.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#include "support/catch.hpp"
