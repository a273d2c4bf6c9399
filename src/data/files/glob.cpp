#include "data/files/glob.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "accrue/core/error.h"
#include "core/near_path.h"
#include "data/files/glob_parts.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

bool is_regular(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool has_wildcard(const std::string& part) { return part.find_first_of("*?[\\") != part.npos; }

bool is_hidden(const std::string& name) { return name.starts_with('.'); }

using Identity = std::pair<dev_t, ino_t>;

/// Identifies a file or folder by more than its name; none if there is no such file.
std::optional<Identity> identity_of(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return std::nullopt;
  return Identity(status.st_dev, status.st_ino);
}

/// Walks the folders of one glob, part by part of its path. Links to folders are followed; below
/// "**" each folder is walked once, by its own name if it has one, so that links may form cycles.
class GlobWalk {
 public:
  GlobWalk(const std::string& glob, const std::string& what)
      : what_(what), parts_(glob_parts(glob)) {}

  /// All files below `folder`, whatever characters are in its name.
  GlobWalk(const fs::path& folder, const std::string& what)
      : what_(what), base_(folder), parts_{"**", "*"} {}

  std::vector<fs::path> files() && {
    visit(base_, 0);
    // After all others, so that a folder that is also found by its own name gets that one.
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const auto [folder, part] = links_[i];
      visit_tree(folder, part);
    }
    return std::move(found_);
  }

 private:
  void visit(const fs::path& base, std::size_t part) {
    if (part == parts_.size()) {
      if (is_regular(base))
        found_.push_back(base);
      else
        expect_to_lead_somewhere(base);
    } else if (parts_[part] == "**") {
      visit_tree(base, part);
    } else if (has_wildcard(parts_[part])) {
      visit_matches(base, part);
    } else {
      visit(base / parts_[part], part + 1);
    }
  }

  void visit_tree(const fs::path& base, std::size_t part) {
    const auto identity = identity_of(base.empty() ? fs::path(".") : base);
    if (identity && !walked_.insert({part, *identity}).second) return;
    visit(base, part + 1);
    for (const fs::directory_entry& entry : entries(base)) {
      std::error_code ignored;
      const std::string name = entry.path().filename().string();
      if (is_hidden(name)) continue;
      // The target of a link may be a folder with part of the data.
      if (entry.is_symlink(ignored)) expect_to_lead_somewhere(entry.path());
      if (!entry.is_directory(ignored)) continue;
      if (entry.is_symlink(ignored))
        links_.emplace_back(base / name, part);
      else
        visit_tree(base / name, part);
    }
  }

  /// A link without a target (a disk that is not mounted) would leave out a part of the data.
  void expect_to_lead_somewhere(const fs::path& path) const {
    std::error_code reason;
    if (!fs::is_symlink(path, reason) || fs::exists(path, reason)) return;
    throw usage_error(what_, "files that can be read",
                      path.string() + ": a link to " + fs::read_symlink(path, reason).string() +
                          ", which does not exist",
                      "mounting or making what it leads to, removing it, or a glob that leaves it "
                      "out");
  }

  void visit_matches(const fs::path& base, std::size_t part) {
    const bool is_last = part + 1 == parts_.size();
    for (const fs::directory_entry& entry : entries(base)) {
      std::error_code ignored;
      const std::string name = entry.path().filename().string();
      if (!part_matches(parts_[part], name)) continue;
      const bool is_link = entry.is_symlink(ignored);
      if (is_link) expect_to_lead_somewhere(entry.path());
      if (is_link && !is_last && parts_[part + 1] == "**")
        links_.emplace_back(base / name, part + 1);
      else if (is_last || entry.is_directory(ignored))
        visit(base / name, part + 1);
    }
  }

  /// Sorted, so that of two links to one folder the same one is always followed.
  std::vector<fs::directory_entry> entries(const fs::path& folder) const {
    std::error_code failure;
    std::vector<fs::directory_entry> listed;
    fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, failure);
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure))
      listed.push_back(*entry);
    const bool is_no_folder =
        failure == std::errc::no_such_file_or_directory || failure == std::errc::not_a_directory;
    if (failure && !is_no_folder) {
      throw usage_error(what_, "folders that can be read",
                        folder.string() + ": " + failure.message(), "a glob that leaves it out");
    }
    std::sort(listed.begin(), listed.end(),
              [](const fs::directory_entry& a, const fs::directory_entry& b) {
                return a.path().native() < b.path().native();
              });
    return listed;
  }

  const std::string& what_;
  fs::path base_;
  std::vector<std::string> parts_;
  std::set<std::pair<std::size_t, Identity>> walked_;    ///< folders below "**", by its part
  std::vector<std::pair<fs::path, std::size_t>> links_;  ///< to folders, to be walked
  std::vector<fs::path> found_;
};

std::vector<fs::path> files_of(const std::string& glob, const std::string& what) {
  if (has_wildcard(glob) && is_regular(glob)) return {glob};
  return GlobWalk(glob, what).files();
}

std::string quoted(const std::vector<std::string>& globs) {
  std::string text;
  for (const std::string& glob : globs) text += (text.empty() ? "'" : ", '") + glob + "'";
  return text;
}

/// The folder that contains everything that `glob` may match.
fs::path folder_above_wildcards(const std::string& glob) {
  fs::path folder = glob;
  while (has_wildcard(folder.string())) folder = folder.parent_path();
  return folder.has_filename() ? folder : folder.parent_path();
}

/// Whether `folder` contains no file, directly or below, except hidden ones. It reads a bounded
/// number of entries.
bool holds_nothing(const fs::path& folder) {
  constexpr int most_entries = 10'000;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, failure);
  for (int seen = 0; !failure && entry != fs::recursive_directory_iterator(); ++seen) {
    const bool hidden = is_hidden(entry->path().filename().string());
    if (hidden) entry.disable_recursion_pending();
    if (seen == most_entries || (!hidden && !entry->is_directory(failure))) return false;
    entry.increment(failure);
  }
  return !failure;
}

std::string suggestion_for(const std::string& glob) {
  std::error_code ignored;
  if (const fs::path folder = folder_above_wildcards(glob); holds_nothing(folder))
    return "putting files into " + folder.string() +
           ", which holds none: text, JSON lines (.jsonl), token ids (.bin), or images in a folder "
           "per class";
  if (fs::is_directory(glob, ignored))
    return "'" + (fs::path(glob) / "**").string() + "': it is a folder";
  if (glob.starts_with('~')) return "the home folder's full path: ~ is not expanded";
  const std::string other = "an absolute path, or **/ for files in any folder below";
  return has_wildcard(glob) ? other : near_path_or(glob, other);
}

/// Sorts `files` by path. If a file has several names the first is kept.
FoundFiles each_once(std::vector<fs::path> files) {
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  FoundFiles found;
  std::map<Identity, std::size_t> places;  // in found.files
  for (fs::path& file : files) {
    if (const std::optional<Identity> identity = identity_of(file)) {
      const auto [place, is_new] = places.try_emplace(*identity, found.files.size());
      if (!is_new) {
        const fs::path& first = found.files[place->second];
        if (file != first) found.other_names.push_back({.name = std::move(file), .file = first});
        continue;
      }
    }
    found.files.push_back(std::move(file));
  }
  return found;
}

}  // namespace

FoundFiles find_files(const std::vector<std::string>& globs, const std::string& what) {
  if (globs.empty())
    throw usage_error(what, "at least one glob of files", "none", "[\"data/**/*.txt\"]");
  std::vector<fs::path> files;
  std::vector<std::string> unmatched;
  for (const std::string& glob : globs) {
    std::vector<fs::path> matches = files_of(glob, what);
    if (matches.empty()) unmatched.push_back(glob);
    std::move(matches.begin(), matches.end(), std::back_inserter(files));
  }
  if (!unmatched.empty()) {
    std::error_code ignored;
    throw usage_error(what, "files that match",
                      "none for " + quoted(unmatched) + " in " + fs::current_path(ignored).string(),
                      suggestion_for(unmatched.front()));
  }
  return each_once(std::move(files));
}

std::vector<fs::path> expand_globs(const std::vector<std::string>& globs, const std::string& what) {
  return find_files(globs, what).files;
}

std::vector<fs::path> files_below(const fs::path& folder, const std::string& what) {
  return each_once(GlobWalk(folder, what).files()).files;
}

std::set<fs::path> matching(const std::vector<fs::path>& paths,
                            const std::vector<std::string>& globs, const std::string& what) {
  if (globs.empty()) return {};
  std::set<Identity> wanted;
  for (const fs::path& file : expand_globs(globs, what))
    if (const auto identity = identity_of(file)) wanted.insert(*identity);
  std::set<fs::path> found;
  for (const fs::path& path : paths)
    if (const auto identity = identity_of(path); identity && wanted.contains(*identity))
      found.insert(path);
  return found;
}

std::vector<fs::path> without(const std::vector<fs::path>& paths,
                              const std::set<fs::path>& excluded, const std::string& what) {
  std::vector<fs::path> rest = paths;
  std::erase_if(rest, [&](const fs::path& path) { return excluded.contains(path); });
  if (rest.empty())
    throw usage_error(what, "files beside those that data.exclude names",
                      "none: all " + std::to_string(paths.size()) + " are excluded",
                      "a narrower data.exclude");
  return rest;
}

}  // namespace accrue::data
