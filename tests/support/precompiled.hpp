// What nearly every test includes, compiled once for all of them.
#pragma once

#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#include "support/catch.hpp"
