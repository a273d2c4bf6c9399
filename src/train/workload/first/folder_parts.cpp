#include "train/workload/first/folder_parts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "accrue/core/error.h"
#include "core/lower_case.h"
#include "data/files/glob.h"
#include "data/files/sniffed_file.h"
#include "data/files/suffix.h"
#include "data/images/sets/image_set_file.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

using Paths = std::vector<fs::path>;

/// The words of a name, in lower case: sequences of letters and digits.
std::set<std::string> words_in(const std::string& name) {
  std::set<std::string> words;
  std::string word;
  for (const char c : lower_case(name) + '.') {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      word += c;
    } else if (!word.empty()) {
      words.insert(std::exchange(word, {}));
    }
  }
  return words;
}

bool has_one_of(const std::set<std::string>& words, std::initializer_list<const char*> wanted) {
  return std::ranges::any_of(wanted, [&](const char* word) { return words.contains(word); });
}

bool is_of_image_set(const fs::path& file) {
  return file.filename().string().find("labels") == std::string::npos &&
         data::is_image_set_file(file);
}

bool is_of_kind(FolderKind kind, const fs::path& file) {
  switch (kind) {
    case FolderKind::images:
      return is_image(file);
    case FolderKind::image_sets:
      return is_of_image_set(file);
    case FolderKind::lines:
      return has_lines(file);
    case FolderKind::text:
      return true;
  }
  return false;
}

enum class Role { none, train, val, test };

/// A file or folder in a folder of data.
struct FolderEntry {
  fs::path path;
  bool is_folder = false;
  Paths files;  ///< in it, of the kind that is searched for
};

/// The entries of `folder` that hold some of `files`, by their names.
std::vector<FolderEntry> entries_in(const fs::path& folder, const Paths& files) {
  std::map<fs::path, FolderEntry> entries;
  for (const fs::path& file : files) {
    const fs::path below = file.lexically_relative(folder);
    if (below.empty() || *below.begin() == "..") continue;
    FolderEntry& entry = entries[*below.begin()];
    entry.path = folder / *below.begin();
    entry.is_folder = entry.path != file;
    entry.files.push_back(file);
  }
  std::vector<FolderEntry> list;
  for (auto& [name, entry] : entries) list.push_back(std::move(entry));
  return list;
}

/// Source code has files called train.py and test.py, too, which are no parts of a data set.
bool may_be_a_part(const FolderEntry& entry, FolderKind kind) {
  if (entry.is_folder || kind != FolderKind::text) return true;
  constexpr std::array<std::string_view, 6> suffixes{"",     ".txt", ".text",
                                                     ".raw", ".bin", ".tokens"};
  return std::ranges::find(suffixes, data::suffix_of(entry.path)) != suffixes.end();
}

Role role_of(const FolderEntry& entry, FolderKind kind) {
  if (!may_be_a_part(entry, kind)) return Role::none;
  const std::string name = entry.path.filename().string();
  const std::set<std::string> words =
      entry.is_folder ? std::set<std::string>{lower_case(name)} : words_in(name);
  const bool is_train = has_one_of(words, {"train", "training"});
  const bool is_val = has_one_of(words, {"val", "valid", "validation", "dev"});
  const bool is_test = has_one_of(words, {"test", "t10k"});
  if (is_train) return is_val || is_test ? Role::none : Role::train;
  if (is_val) return Role::val;
  return is_test ? Role::test : Role::none;
}

/// Whether the whole name says that it is held out, whatever is beside it.
bool is_held_out_alone(const FolderEntry& entry, FolderKind kind) {
  const std::string name =
      lower_case((entry.is_folder ? entry.path.filename() : entry.path.stem()).string());
  return may_be_a_part(entry, kind) && has_one_of({name}, {"val", "valid", "validation"});
}

/// The names of the folders in an entry that hold images.
std::set<fs::path> classes_in(const FolderEntry& entry) {
  std::set<fs::path> classes;
  for (const fs::path& file : entry.files)
    if (file.parent_path() != entry.path)
      classes.insert(*file.lexically_relative(entry.path).begin());
  return classes;
}

bool has_images_in_it(const FolderEntry& entry) {
  return std::ranges::any_of(
      entry.files, [&](const fs::path& file) { return file.parent_path() == entry.path; });
}

/// The entries of a folder that are trained on and held out.
struct Split {
  std::vector<FolderEntry> train, val;
};

bool is_among(const std::vector<FolderEntry>& entries, const FolderEntry& wanted) {
  return std::ranges::any_of(entries,
                             [&](const FolderEntry& entry) { return entry.path == wanted.path; });
}

/// The entries of a folder by their roles.
class FolderEntries {
 public:
  FolderEntries(const std::vector<FolderEntry>& entries, FolderKind kind)
      : kind_(kind), entries_(entries) {}

  std::optional<Split> split(const std::string& what) const {
    if (kind_ == FolderKind::images) return split_images(what);
    return split_files();
  }

 private:
  template <class Is>
  std::vector<FolderEntry> those(Is is) const {
    std::vector<FolderEntry> found;
    std::ranges::copy_if(entries_, std::back_inserter(found), is);
    return found;
  }
  std::vector<FolderEntry> with_role(Role role) const {
    return those([&](const FolderEntry& entry) { return role_of(entry, kind_) == role; });
  }

  std::optional<Split> split_files() const {
    Split split{.train = with_role(Role::train), .val = with_role(Role::val)};
    if (split.val.empty()) split.val = with_role(Role::test);
    if (!split.train.empty()) {
      split = without_text_of_tokens(std::move(split));
      return split.val.empty() ? std::nullopt : std::optional(split);
    }
    if (kind_ != FolderKind::image_sets)
      split.val = those([&](const FolderEntry& entry) { return is_held_out_alone(entry, kind_); });
    split.train = those([&](const FolderEntry& entry) {
      return role_of(entry, kind_) != Role::test && !is_among(split.val, entry);
    });
    return split.val.empty() || split.train.empty() ? std::nullopt : std::optional(split);
  }

  /// Token files often lie next to the text that they were made from.
  Split without_text_of_tokens(Split split) const {
    const auto is_other = [](const FolderEntry& entry) {
      return data::suffix_of(entry.path) != ".bin";
    };
    if (kind_ != FolderKind::text || std::ranges::all_of(split.train, is_other)) return split;
    std::erase_if(split.train, is_other);
    std::erase_if(split.val, is_other);
    return split;
  }

  std::vector<FolderEntry> held_out_of(const std::set<fs::path>& classes) const {
    for (const Role role : {Role::val, Role::test}) {
      std::vector<FolderEntry> found = with_role(role);
      std::erase_if(found, [&](const FolderEntry& entry) {
        const std::set<fs::path> its = classes_in(entry);
        return its.empty() || !std::ranges::includes(classes, its);
      });
      if (!found.empty()) return found;
    }
    return {};
  }

  std::optional<Split> split_images(const std::string& what) const {
    Split split{.train = with_role(Role::train), .val = {}};
    std::erase_if(split.train, [](const FolderEntry& entry) { return classes_in(entry).empty(); });
    if (split.train.empty()) return split_among_classes(what);
    std::set<fs::path> classes;
    for (const FolderEntry& entry : split.train) classes.merge(classes_in(entry));
    split.val = held_out_of(classes);
    const auto has_folder_of = [&](auto... roles) {
      return std::ranges::any_of(entries_, [&](const FolderEntry& entry) {
        return entry.is_folder && ((role_of(entry, kind_) == roles) || ...);
      });
    };
    // Among other folders "train" may be a class like them.
    const bool is_class = has_folder_of(Role::none) && !has_folder_of(Role::val, Role::test);
    return is_class ? std::nullopt : std::optional(split);
  }

  /// The split of classes that lie next to a folder that is held out.
  std::optional<Split> split_among_classes(const std::string& what) const {
    Split split{.train = those([&](const FolderEntry& entry) {
                  const Role role = role_of(entry, kind_);
                  return entry.is_folder && role != Role::val && role != Role::test;
                }),
                .val = {}};
    std::set<fs::path> classes;
    for (const FolderEntry& entry : split.train) classes.insert(entry.path.filename());
    split.val = held_out_of(classes);
    if (split.val.empty() || split.train.size() < 2) return std::nullopt;
    if (std::ranges::all_of(split.train, has_images_in_it)) return split;
    const fs::path& first = split.train.front().path;
    throw usage_error(what, "a folder train beside " + split.val.front().path.string(),
                      "folders of classes beside it, such as " + first.string(),
                      "moving these into " + (first.parent_path() / "train").string());
  }

  FolderKind kind_;
  const std::vector<FolderEntry>& entries_;
};

/// Nothing: no entry is named as a part.
std::optional<Split> split_of(const std::vector<FolderEntry>& entries, FolderKind kind,
                              const std::string& what) {
  return FolderEntries(entries, kind).split(what);
}

Paths paths_of(const std::vector<FolderEntry>& entries) {
  Paths paths;
  for (const FolderEntry& entry : entries) paths.push_back(entry.path);
  return paths;
}

/// The entries of `folder` that hold none of the files in `read`.
Paths entries_without(const fs::path& folder, const Paths& files, const std::set<fs::path>& read) {
  Paths found;
  for (const FolderEntry& entry : entries_in(folder, files))
    if (std::ranges::none_of(entry.files, [&](const fs::path& f) { return read.contains(f); }))
      found.push_back(entry.path);
  return found;
}

}  // namespace

bool is_named_as_held_out(const fs::path& file) {
  return has_one_of(words_in(file.filename().string()),
                    {"val", "valid", "validation", "dev", "test", "t10k"});
}

bool is_image(const fs::path& file) {
  const std::string suffix = data::suffix_of(file);
  return suffix == ".png" || suffix == ".jpg" || suffix == ".jpeg";
}

bool has_lines(const fs::path& file) {
  const data::Format format = data::sniff_files({file}, "data.train").front().format;
  return format == data::Format::jsonl || format == data::Format::parquet;
}

FolderFindings FolderFindings::below(const fs::path& part) const {
  const auto is_below = [&](const fs::path& file) {
    const fs::path inner = file.lexically_relative(part);
    return !inner.empty() && *inner.begin() != "..";
  };
  FolderFindings found{.folder = part, .files = {}, .kind = kind, .of_kind = {}};
  std::ranges::copy_if(files, std::back_inserter(found.files), is_below);
  std::ranges::copy_if(of_kind, std::back_inserter(found.of_kind), is_below);
  return found;
}

FolderFindings look_into(const fs::path& folder, const std::string& what) {
  FolderFindings found{
      .folder = folder, .files = data::files_below(folder, what), .kind = {}, .of_kind = {}};
  for (const FolderKind kind :
       {FolderKind::images, FolderKind::image_sets, FolderKind::lines, FolderKind::text}) {
    found.kind = kind;
    std::ranges::copy_if(found.files, std::back_inserter(found.of_kind),
                         [kind](const fs::path& file) { return is_of_kind(kind, file); });
    if (!found.of_kind.empty()) break;
  }
  return found;
}

FolderParts parts_of_folder(const FolderFindings& findings, const std::string& what) {
  const fs::path& folder = findings.folder;
  const Paths &files = findings.files, &of_kind = findings.of_kind;
  const FolderKind kind = findings.kind;
  fs::path place = folder;
  std::vector<FolderEntry> entries = entries_in(place, of_kind);
  std::optional<Split> split = split_of(entries, kind, what);
  while (!split && entries.size() == 1 && entries.front().is_folder) {
    place = entries.front().path;
    entries = entries_in(place, of_kind);
    split = split_of(entries, kind, what);
  }
  FolderParts parts;
  std::set<fs::path> read;
  if (split) {
    parts = {.train = paths_of(split->train), .val = paths_of(split->val), .unread = {}};
    for (const auto* entries_of_part : {&split->train, &split->val})
      for (const FolderEntry& entry : *entries_of_part)
        read.insert(entry.files.begin(), entry.files.end());
  } else {
    parts.train = {folder};
    read.insert(of_kind.begin(), of_kind.end());
  }
  // Of sets of images all else describes them.
  const Paths& looked_at = kind == FolderKind::image_sets ? of_kind : files;
  parts.unread = entries_without(folder, looked_at, read);
  if (place != folder) {
    const Paths inner = entries_without(place, looked_at, read);
    parts.unread.insert(parts.unread.end(), inner.begin(), inner.end());
  }
  return parts;
}

}  // namespace accrue::train
