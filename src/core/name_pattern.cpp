#include "core/name_pattern.h"

#include <fnmatch.h>

#include <algorithm>

#include "accrue/core/error.h"
#include "core/words.h"

namespace accrue {
namespace {

bool is_number(const std::string& part) {
  return !part.empty() && part.find_first_not_of("0123456789") == part.npos;
}

std::string family_of(const std::string& name) {
  std::string family;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    family += (begin == 0 ? "" : ".") + (is_number(part) ? "*" : part);
    begin = end + 1;
  }
  return family;
}

}  // namespace

bool matches_name(const std::string& pattern, const std::string& name) {
  if (pattern.empty()) return false;
  for (const std::string& whole : {pattern, "*." + pattern, pattern + ".*", "*." + pattern + ".*"})
    if (::fnmatch(whole.c_str(), name.c_str(), 0) == 0) return true;
  return false;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_name(pattern, name); });
}

void check_patterns(const std::string& operation, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names) {
  for (const std::string& pattern : patterns)
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return matches_name(pattern, name); }))
      throw usage_error(operation, "patterns that match",
                        in_quotes(pattern) + ", which matches nothing",
                        "patterns of " + families_of(names));
}

std::string families_of(const std::vector<std::string>& names) {
  std::vector<std::string> families;
  for (const std::string& name : names) {
    std::string family = family_of(name);
    if (std::find(families.begin(), families.end(), family) == families.end())
      families.push_back(std::move(family));
  }
  return listed(families, "and");
}

}  // namespace accrue
