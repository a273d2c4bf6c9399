#include "data/files/glob_parts.h"

#include <fnmatch.h>

#include <cstddef>
#include <string_view>

namespace accrue::data {
namespace {

constexpr std::string_view glob_signs = "*?[";
constexpr char glob_escape = '\\';

}  // namespace

std::vector<std::string> glob_parts(const std::string& glob) {
  std::vector<std::string> parts;
  for (const std::filesystem::path& part : std::filesystem::path(glob)) {
    if (part == ".") continue;  // "./a" and "a" sort alike
    // "**/**" is "**", and would otherwise visit each folder many times over.
    if (part == "**" && !parts.empty() && parts.back() == "**") continue;
    parts.push_back(part.string());
  }
  if (!parts.empty() && parts.back() == "**") parts.emplace_back("*");
  return parts;
}

bool is_wildcard(const std::string& part) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == glob_escape)
      ++i;
    else if (glob_signs.find(part[i]) != glob_signs.npos)
      return true;
  }
  return false;
}

bool part_matches(const std::string& part, const std::string& name) {
  return ::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

std::string as_glob(const std::filesystem::path& path) {
  std::string glob;
  for (const char c : path.native()) {
    if (c == glob_escape || glob_signs.find(c) != glob_signs.npos) glob += glob_escape;
    glob += c;
  }
  return glob;
}

}  // namespace accrue::data
