#include "train/config/names.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "core/nearest.h"
#include "train/config/key.h"

namespace accrue::train {
namespace {

struct Path {
  std::string section, leaf;
};

Path split(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

constexpr std::size_t far = std::numeric_limits<std::size_t>::max();

/// Whether `leaf` is a short known name with an ending: lrate of lr.
bool is_longer_form(const std::string& leaf, const std::string& known) {
  constexpr std::size_t least = 2, longest_ending = 4;
  if (known.size() < least || !leaf.starts_with(known)) return false;
  const std::string ending = leaf.substr(known.size());
  return ending.size() <= longest_ending && ending.find('_') == std::string::npos;
}

/// Edits from the last part of a name to that of a known key, if they are few for its length; one
/// more edit is allowed if the sections agree, as then few other keys can be meant.
std::size_t leaf_edits(const Path& name, const Path& known) {
  constexpr std::size_t length_of_an_edit = 4, edits_of_an_ending = 2;
  const std::size_t edits = edit_distance(name.leaf, known.leaf);
  if (name.section == known.section && is_longer_form(name.leaf, known.leaf))
    return std::min(edits, edits_of_an_ending);
  const std::size_t allowed = std::max(name.leaf.size(), known.leaf.size()) / length_of_an_edit;
  return edits <= allowed + (name.section == known.section ? 1 : 0) ? edits : far;
}

std::size_t key_distance(const Path& name, const Path& known) {
  constexpr std::size_t leaf_weight = 2, most_for_section = 3;
  const std::size_t edits = leaf_edits(name, known);
  if (edits == far) return far;
  return leaf_weight * edits +
         std::min(most_for_section, edit_distance(name.section, known.section));
}

/// Whether `name` is `known`, or its last parts, with other separators.
bool is_spelling(std::string name, std::string known) {
  std::replace(name.begin(), name.end(), '.', '_');
  std::replace(known.begin(), known.end(), '.', '_');
  return known == name || (name.find('_') != std::string::npos && known.ends_with("_" + name));
}

}  // namespace

std::string normalised(std::string name) {
  for (char& c : name)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

bool is_section(const std::string& path) {
  return std::any_of(keys().begin(), keys().end(),
                     [&](const Key& key) { return key.name.starts_with(path + "."); });
}

const Key* nearest_key(const std::string& name) {
  const Path path = split(normalised(name));
  const auto distance = [&](const Key& key) {
    return is_spelling(normalised(name), key.name) ? 0 : key_distance(path, split(key.name));
  };
  const auto found =
      std::min_element(keys().begin(), keys().end(),
                       [&](const Key& a, const Key& b) { return distance(a) < distance(b); });
  return distance(*found) == far ? nullptr : &*found;
}

}  // namespace accrue::train
