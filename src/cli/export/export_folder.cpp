#include "cli/export/export_folder.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>

#include "accrue/core/error.h"
#include "core/atomic_file.h"

namespace accrue::cli {
namespace {

namespace fs = std::filesystem;

Error holds_something(const fs::path& out, const std::string& name) {
  return usage_error("export to " + out.string(), "a new or empty folder", "one that has " + name,
                     "another --out");
}

bool is_anything(const fs::path& path) {
  std::error_code unreadable;
  return fs::exists(fs::symlink_status(path, unreadable));
}

Error cannot_make(const fs::path& folder, int error) {
  return runtime_error("make " + folder.string(), "a folder that can be made",
                       std::generic_category().message(error), "another folder");
}

/// Creates a folder and its parents. Returns those it created, the innermost first.
std::vector<fs::path> make_folders(const fs::path& folder) {
  std::vector<fs::path> missing;
  for (fs::path at = fs::absolute(folder).lexically_normal(); !is_anything(at);) {
    if (at.has_filename()) missing.push_back(at);
    at = at.parent_path();
  }
  std::vector<fs::path> made;
  for (auto next = missing.rbegin(); next != missing.rend(); ++next) {
    std::error_code failed;
    if (fs::create_directory(*next, failed)) made.insert(made.begin(), *next);
    if (!failed) continue;
    for (const fs::path& one : made) fs::remove(one, failed);
    throw cannot_make(*next, failed.value());
  }
  return made;
}

/// A file name that marks the folder as a model for other programs.
bool is_known_by(const fs::path& name) {
  return name == "config.json" || name == "adapter_config.json";
}

/// The files to be moved to their places, in that order.
std::vector<fs::path> names_in(const fs::path& folder) {
  std::vector<fs::path> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  std::stable_partition(names.begin(), names.end(),
                        [](const fs::path& name) { return !is_known_by(name); });
  return names;
}

/// Renames `from` to `to` if that name is free. On failure errno has the reason.
bool rename_to_free_name(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // For a file system without such renames.
  if (is_anything(to)) {
    errno = EEXIST;
    return false;
  }
  return std::rename(from.c_str(), to.c_str()) == 0;
}

}  // namespace

void ExportFolder::check(const fs::path& out) {
  std::error_code unreadable;
  if (is_anything(out) && !fs::is_directory(out, unreadable))
    throw usage_error("export to " + out.string(), "a new or empty folder",
                      "something that is no folder", "another --out");
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(out, unreadable))
    names.push_back(entry.path().filename().string());
  if (names.empty()) return;
  // Of several files, name the one that explains most.
  const auto card = std::ranges::find(names, "README.md");
  throw holds_something(out, card == names.end() ? names.front() : *card);
}

ExportFolder::ExportFolder(fs::path out) : out_(std::move(out)) {
  check(out_);
  made_ = make_folders(out_);
  std::string name = (out_ / ".accrue-export-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    const int error = errno;
    std::error_code ignored;
    for (const fs::path& folder : made_) fs::remove(folder, ignored);
    throw cannot_make(name, error);
  }
  files_ = name;
}

ExportFolder::~ExportFolder() {
  std::error_code ignored;
  for (const fs::path& moved : moved_) fs::remove_all(moved, ignored);
  fs::remove_all(files_, ignored);
  for (const fs::path& folder : made_) fs::remove(folder, ignored);  // unless it has files
}

void ExportFolder::move(const fs::path& name) {
  const fs::path place = out_ / name;
  if (rename_to_free_name(files_ / name, place)) {
    moved_.push_back(place);
    return;
  }
  if (errno == EEXIST) throw holds_something(out_, name.string());
  throw runtime_error("write " + place.string(), "a file that can be given its name",
                      std::generic_category().message(errno), "another --out");
}

void ExportFolder::commit() {
  for (const fs::path& name : names_in(files_)) move(name);
  sync_to_disk(out_);
  moved_.clear();
  made_.clear();
}

}  // namespace accrue::cli
