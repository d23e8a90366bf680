// Writes JSON: what the page is told.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>
#include <cstdio>
#include <string>
#include <string_view>

#include "generate/utf8.hpp"

namespace web {

/// A JSON text that grows from its beginning to its end. Commas are put where they belong. There is no NUL in it.
class Json {
 public:
  /// An object or a list, closed by the end of `fill`.
  template <class Fill>
  Json& object(Fill&& fill) {
    return nest('{', '}', fill);
  }
  template <class Fill>
  Json& list(Fill&& fill) {
    return nest('[', ']', fill);
  }

  /// The name of the next value, inside an object.
  Json& name(std::string_view text) {
    value(text);
    text_ += ':';
    comma_ = false;
    return *this;
  }

  Json& value(bool yes) { return next(yes ? "true" : "false"); }
  Json& value(std::integral auto number) { return next(std::to_string(number)); }
  /// Nine digits tell all floats apart. What is no number is null.
  Json& value(double number) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.9g", number);
    return next(std::isfinite(number) ? digits : "null");
  }
  Json& null() { return next("null"); }

  /// A text. Bytes that form no character become replacement characters.
  Json& value(std::string_view text) {
    next("\"");
    for (const char c : generate::whole_characters(text)) append(c);
    text_ += '"';
    return *this;
  }
  Json& value(const std::string& text) { return value(std::string_view(text)); }
  Json& value(const char* text) { return value(std::string_view(text)); }

  const std::string& text() const { return text_; }

 private:
  Json& next(std::string_view value) {
    if (comma_) text_ += ',';
    text_ += value;
    comma_ = true;
    return *this;
  }

  template <class Fill>
  Json& nest(char open, char close, Fill& fill) {
    next(std::string_view(&open, 1));
    comma_ = false;
    fill();
    text_ += close;
    comma_ = true;
    return *this;
  }

  void append(char c) {
    if (c == '"' || c == '\\') text_ += '\\';
    if (static_cast<unsigned char>(c) >= ' ') {
      text_ += c;
      return;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
    text_ += escaped;
  }

  std::string text_;
  bool comma_ = false;
};

}  // namespace web
