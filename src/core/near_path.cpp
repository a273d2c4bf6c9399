#include "core/near_path.h"

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <vector>

#include "core/nearest.h"

namespace accrue {
namespace {

/// Names in `folder`, sorted, as folders list them in any order.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  constexpr std::size_t most_to_look_at = 4096;
  std::vector<std::string> names;
  std::error_code unreadable;
  std::filesystem::directory_iterator entry(folder, unreadable);
  for (; !unreadable && entry != std::filesystem::directory_iterator() &&
         names.size() < most_to_look_at;
       entry.increment(unreadable))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::optional<std::filesystem::path> near_path(const std::filesystem::path& path) {
  constexpr std::size_t longest_name = 255;
  std::error_code unreadable;
  const std::string name = path.filename().string();
  if (name.empty() || name.size() > longest_name || std::filesystem::exists(path, unreadable))
    return std::nullopt;
  const std::filesystem::path folder = path.parent_path();
  const auto found = misspelt(name, names_in(folder.empty() ? std::filesystem::path(".") : folder));
  return found ? std::optional(folder / *found) : std::nullopt;
}

std::string near_path_or(const std::filesystem::path& path, const std::string& otherwise) {
  const auto near = near_path(path);
  return near ? near->string() : otherwise;
}

}  // namespace accrue
