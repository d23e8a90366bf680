// The Python module, as a source of the wheel's own folder: setuptools takes no others.
// SPDX-License-Identifier: MIT
#include "../python/specdec.cpp"
