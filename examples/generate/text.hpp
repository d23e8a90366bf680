// Numbers and texts for people to read.
#pragma once

#include <cmath>
#include <iomanip>
#include <sstream>
#include <string>

namespace generate {

/// With so many digits behind the point; "-" for what is no number.
inline std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

/// The text with question marks for control characters that a terminal might obey.
inline std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f) c = '?';
  }
  return text;
}

}  // namespace generate
