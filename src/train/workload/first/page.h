#pragma once

#include <cstdint>
#include <string>

#include "core/printable.h"

namespace accrue::train {

/// "name = value    # why", with names from files in `why` made printable_line().
std::string line_of_key(const std::string& name, const std::string& value, const std::string& why);

/// TOML with a comment beside each key. Names from files in comments are made printable_line().
class Page {
 public:
  explicit Page(const std::string& first) { remark(first); }
  void remark(const std::string& text) { text_ += "# " + printable_line(text) + "\n"; }
  void section(const char* name) { text_ += std::string("\n[") + name + "]\n"; }
  void key(const char* name, const std::string& value, const std::string& why = {}) {
    text_ += line_of_key(name, value, why);
  }
  void key(const char* name, std::int64_t value, const std::string& why = {}) {
    key(name, std::to_string(value), why);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// A text in TOML syntax.
std::string quoted(const std::string& text);
/// Two digits, as a person would write them: 0.0002, 4.5.
std::string decimal(double value);

}  // namespace accrue::train
