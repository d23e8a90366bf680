// Formats numbers and texts for printing.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <iomanip>
#include <sstream>
#include <string>

namespace generate {

/// The value with `digits` digits after the point; "-" if it is not finite.
inline std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

/// The text with a question mark for each control character, because a terminal might obey it.
inline std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f) c = '?';
  }
  return text;
}

}  // namespace generate
