#include "train/workload/first/page.h"

#include <algorithm>
#include <cstdio>

#include "train/config/toml/value.h"

namespace accrue::train {

std::string line_of_key(const std::string& name, const std::string& value, const std::string& why) {
  std::string line = name + " = " + value;
  constexpr std::size_t kColumn = 30;
  if (!why.empty()) {
    line.resize(std::max(line.size() + 1, kColumn), ' ');
    line += "# " + printable_line(why);
  }
  return line + "\n";
}

std::string quoted(const std::string& text) { return to_toml(Value{text}); }

std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

}  // namespace accrue::train
