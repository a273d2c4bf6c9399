#include "data/images/sets/class_folders.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "accrue/core/error.h"
#include "core/words.h"
#include "data/files/glob_parts.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

using FolderNames = std::vector<std::string>;

constexpr const char* any_folders = "**";

FolderNames names_in(const fs::path& folder) {
  FolderNames names;
  for (const fs::path& name : folder)
    if (name != ".") names.push_back(name.string());
  return names;
}

/// The folder of the first `count` names.
fs::path folder_of_names(const FolderNames& names, std::size_t count) {
  fs::path folder;
  for (std::size_t i = 0; i < count; ++i) folder /= names[i];
  return folder.empty() ? fs::path(".") : folder;
}

/// The folders of a pattern, as it names them.
FolderNames folders_of(const std::string& glob) {
  std::error_code ignored;
  FolderNames parts = glob_parts(fs::is_regular_file(glob, ignored) ? as_glob(glob) : glob);
  if (!parts.empty()) parts.pop_back();
  return parts;
}

/// The folder's own name, also if the path to it ends in "..".
std::string name_of_folder(const fs::path& folder) {
  std::error_code ignored;
  const std::string name = folder.filename().string();
  if (!name.empty() && name != "." && name != "..") return name;
  return fs::weakly_canonical(folder, ignored).filename().string();
}

/// How many trailing folders all patterns share. None is skipped if only they distinguish images,
/// or if it is a known class.
std::size_t common_end(const std::vector<FolderNames>& patterns, const FolderNames& known) {
  for (std::size_t skipped = 0;; ++skipped) {
    const auto part = [skipped](const FolderNames& folders) {
      return folders[folders.size() - 1 - skipped];
    };
    for (const FolderNames& folders : patterns)
      if (folders.size() <= skipped) return 0;
    const std::string first = part(patterns.front());
    if (is_wildcard(first) || std::ranges::find(known, first) != known.end()) return skipped;
    for (const FolderNames& folders : patterns)
      if (part(folders) != first) return skipped;
  }
}

/// For a pattern whose last `skipped` folders are not classes, the folder that is the class.
std::size_t class_part_of(const FolderNames& folders, std::size_t skipped) {
  if (folders.empty()) return 0;
  std::size_t part = folders.size() - 1 - skipped;
  if (!is_wildcard(folders[part])) return part;
  while (part > 0 && is_wildcard(folders[part - 1])) --part;
  return part;
}

/// Finds out which name in a path matches a part of a pattern.
class NamesByParts {
 public:
  NamesByParts(const FolderNames& parts, const FolderNames& names) : parts_(parts), names_(names) {}

  /// The first name that part `wanted` matches, if the parts match all the names. A "**" matches as
  /// few as possible.
  std::optional<std::size_t> of(std::size_t wanted) const { return from(0, 0, wanted); }

 private:
  std::optional<std::size_t> from(std::size_t part, std::size_t name, std::size_t wanted) const {
    if (part == parts_.size()) return name == names_.size() ? std::optional(name) : std::nullopt;
    std::optional<std::size_t> found;
    if (parts_[part] == any_folders) {
      for (std::size_t next = name; next <= names_.size() && !found; ++next) {
        if (next > name && names_[next - 1].starts_with('.')) break;
        found = from(part + 1, next, wanted);
      }
    } else if (name < names_.size() && is_matched(part, name)) {
      found = from(part + 1, name + 1, wanted);
    }
    if (found && part == wanted) found = name;
    return found;
  }

  bool is_matched(std::size_t part, std::size_t name) const {
    return parts_[part] == names_[name] || part_matches(parts_[part], names_[name]);
  }

  const FolderNames& parts_;
  const FolderNames& names_;
};

std::string first_of(const std::vector<fs::path>& paths) {
  constexpr std::size_t most = 5;
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back(path.string());
  return first_few(std::move(names), most);
}

}  // namespace

ClassFolders::ClassFolders(const std::vector<std::string>& globs, const FoundFiles& found,
                           const std::vector<std::string>& known, const std::string& what) {
  take_patterns(globs, known);
  for (const Path& file : found.files) {
    const Path folder = file.parent_path();
    if (!places_.contains(folder.native())) places_.emplace(folder.native(), place_of(folder));
  }
  settle_bases(found.files, what);
  for (auto& [folder, place] : places_)
    if (!place.class_folder.empty()) place.class_name = name_of_folder(place.class_folder);
  remark_on_places(found.files);
  remark_on_other_names(found.other_names);
  if (known.empty()) remark_on_folders_without_images();
}

const std::string& ClassFolders::class_of(const Path& file) const {
  return known_place_of(file).class_name;
}

const ClassFolders::Place& ClassFolders::known_place_of(const Path& file) const {
  return places_.at(file.parent_path().native());
}

void ClassFolders::take_patterns(const std::vector<std::string>& globs,
                                 const std::vector<std::string>& known) {
  std::vector<FolderNames> all;
  for (const std::string& glob : globs) all.push_back(folders_of(glob));
  const std::size_t skipped = common_end(all, known);
  for (FolderNames& folders : all) {
    const std::size_t part = class_part_of(folders, skipped);
    patterns_.push_back({.folders = std::move(folders), .class_part = part});
  }
}

ClassFolders::Place ClassFolders::place_of(const Path& folder) const {
  const FolderNames names = names_in(folder);
  Place place{.class_folder = folder_of_names(names, names.size()),
              .base = {},
              .pattern = patterns_.size()};
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    const Pattern& pattern = patterns_[i];
    const auto name = NamesByParts(pattern.folders, names).of(pattern.class_part);
    if (!name) continue;
    place.pattern = i;
    if (pattern.folders.empty()) return place;
    if (pattern.folders[pattern.class_part] == any_folders)
      place.base = folder_of_names(names, *name);
    place.is_below = *name + 1 < names.size();
    place.class_folder = *name < names.size() ? folder_of_names(names, *name + 1) : Path();
    return place;
  }
  return place;
}

/// Images in X itself, for a pattern "X/**": they are of class X if there is nothing below, or if
/// the X of all such patterns have some.
void ClassFolders::settle_bases(const std::vector<Path>& files, const std::string& what) {
  std::map<Path, Base> bases;
  for (const Path& file : files) {
    const Place& place = known_place_of(file);
    if (place.base.empty()) continue;
    Base& base = bases[place.base];
    Path& image = place.class_folder.empty() ? base.image_in_it : base.image_below;
    if (image.empty()) image = file;
  }
  const auto has_images = [](const auto& base) { return !base.second.image_in_it.empty(); };
  const auto with = std::ranges::find_if(bases, has_images);
  if (with == bases.end()) return;
  const auto without = std::ranges::find_if_not(bases, has_images);
  if (without != bases.end())
    throw usage_error(what, "patterns that all lead to the folders of classes, or to classes",
                      with->second.image_in_it.string() + ", which lies in " +
                          with->first.string() + " itself, beside " +
                          without->second.image_below.string() + ", which lies in a folder of " +
                          without->first.string(),
                      "patterns with a * for the class's folder, such as \"" +
                          (without->first / "*" / "**" / "*").string() + "\"");
  const bool is_root = bases.size() == 1 && !with->second.image_below.empty();
  if (is_root) return;
  bases_are_classes_ = true;
  for (auto& [folder, place] : places_) {
    if (place.base.empty()) continue;
    place.is_below = !place.class_folder.empty();
    place.class_folder = place.base;
  }
}

void ClassFolders::remark_on_places(const std::vector<Path>& files) {
  std::int64_t below = 0;
  std::string example;
  std::vector<Path> outside;
  for (const Path& file : files) {
    const Place& place = known_place_of(file);
    if (place.class_folder.empty()) outside.push_back(file);
    if (!place.is_below || place.class_folder.empty()) continue;
    if (below++ == 0) example = file.string() + " is of class '" + place.class_name + "'";
  }
  if (below > 0)
    remarks_.push_back(counted(below, "image") + (below == 1 ? " lies" : " lie") +
                       " in a folder below that of the class: " + example);
  if (!outside.empty())
    remarks_.push_back("left out, as it lies beside the folders of the classes: " +
                       first_of(outside));
}

/// A file in the folders of several classes counts once, like all files.
void ClassFolders::remark_on_other_names(const std::vector<OtherName>& names) {
  std::int64_t count = 0;
  std::string example;
  for (const OtherName& other : names) {
    const Place by_other = place_of(other.name.parent_path());
    const Path& folder =
        bases_are_classes_ && !by_other.base.empty() ? by_other.base : by_other.class_folder;
    const Place& place = known_place_of(other.file);
    if (folder.empty() || place.class_folder.empty()) continue;
    if (name_of_folder(folder) == place.class_name) continue;
    if (count++ == 0) example = other.file.string() + ", which is also " + other.name.string();
  }
  if (count > 0)
    remarks_.push_back(counted(count, "image") +
                       " in the folders of several classes, each of which counts in the first "
                       "alone: " +
                       example);
}

std::vector<ClassFolders::Path> ClassFolders::folders_without_images() const {
  std::set<Path> with_images;
  std::set<std::pair<Path, std::string>> looked_through;  // a folder, and a part of a pattern
  for (const auto& [folder, place] : places_) {
    if (place.class_folder.empty() || place.pattern == patterns_.size()) continue;
    with_images.insert(place.class_folder);
    const Pattern& pattern = patterns_[place.pattern];
    if (pattern.folders.empty() || place.class_folder == place.base) continue;
    const std::string& part = pattern.folders[pattern.class_part];
    const Path parent = place.class_folder.parent_path();
    if (is_wildcard(part)) looked_through.emplace(parent.empty() ? Path(".") : parent, part);
  }
  std::vector<Path> found;
  for (const auto& [parent, part] : looked_through) {
    std::error_code failure;
    fs::directory_iterator entry(parent, failure);
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
      std::error_code ignored;
      const Path name = entry->path().filename();
      const bool is_named =
          part == any_folders ? !name.string().starts_with('.') : part_matches(part, name.string());
      const Path folder = parent == "." ? name : parent / name;
      if (is_named && entry->is_directory(ignored) && !with_images.contains(folder))
        found.push_back(folder);
    }
  }
  std::ranges::sort(found);
  return found;
}

/// Such a folder may be a class whose images are missing, or not a class.
void ClassFolders::remark_on_folders_without_images() {
  const std::vector<Path> folders = folders_without_images();
  if (folders.empty()) return;
  remarks_.push_back("a folder without an image of its own that the patterns match is no class: " +
                     first_of(folders));
}

}  // namespace accrue::data
