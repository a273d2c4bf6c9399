#include "data/files/glob_parts.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <system_error>

namespace accrue::data {
namespace {

constexpr std::string_view glob_signs = "*?[";
constexpr char glob_escape = '\\';

/// Whether `parts` match the folders and the file `names`, one by one.
bool match_names(std::span<const std::string> parts, std::span<const std::string> names) {
  if (parts.empty()) return names.empty();
  if (parts.front() != "**")
    return !names.empty() && part_matches(parts.front(), names.front()) &&
           match_names(parts.subspan(1), names.subspan(1));
  for (std::size_t folders = 0; folders < names.size(); ++folders) {
    if (match_names(parts.subspan(1), names.subspan(folders))) return true;
    if (names[folders].starts_with('.')) return false;
  }
  return false;
}

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

bool would_match(const std::string& glob, const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  const std::vector<std::string> parts = glob_parts(glob);
  const auto first = std::ranges::find_if(parts, [](const std::string& part) {
    return is_wildcard(part) || part.find(glob_escape) != part.npos;
  });
  fs::path base;
  for (auto part = parts.begin(); part != first; ++part) base /= *part;
  std::error_code failure;
  base = fs::weakly_canonical(base.empty() ? fs::path(".") : base, failure);
  const fs::path whole = failure ? file : fs::weakly_canonical(file, failure);
  if (failure) return false;
  const auto [end, rest] = std::mismatch(base.begin(), base.end(), whole.begin(), whole.end());
  if (end != base.end()) return false;
  std::vector<std::string> names;
  for (auto name = rest; name != whole.end(); ++name) names.push_back(name->string());
  return match_names({first, parts.end()}, names);
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
