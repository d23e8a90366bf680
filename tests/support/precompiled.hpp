// What nearly every test includes, compiled once for all tests.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#include "support/catch.hpp"
