#include "train/workload/held_out_remarks.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/words.h"
#include "data/files/glob.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

/// Identifies the content of a file, or of a folder of files.
using Content = std::tuple<std::int64_t, std::int64_t, std::string>;

Content content_key(const data::DataFile& file) {
  return {file.files, file.bytes, file.fingerprint};
}

/// The files of `source` that are not excluded and hold something.
std::vector<data::DataFile> files_in_use(const data::Source& source, const Config& config) {
  std::vector<data::DataFile> files = source.files();
  std::vector<fs::path> paths;
  for (const data::DataFile& file : files) paths.push_back(file.path);
  const std::set<fs::path> excluded = data::matching(paths, config.data.exclude, "data.exclude");
  std::erase_if(files, [&](const data::DataFile& file) {
    return file.bytes == 0 || excluded.contains(file.path);
  });
  return files;
}

}  // namespace

std::vector<std::string> held_out_remarks(const Config& config, const Datasets& data) {
  if (!data.val || config.data.val_fraction > 0) return {};
  std::map<Content, fs::path> trained;
  for (const data::DataFile& file : files_in_use(*data.train, config))
    trained.emplace(content_key(file), file.path);
  const std::vector<data::DataFile> held_out = files_in_use(*data.val, config);
  std::vector<std::string> found;
  for (const data::DataFile& file : held_out) {
    const auto same = trained.find(content_key(file));
    if (same == trained.end()) continue;
    const bool has_its_name = same->second == file.path;
    found.push_back(file.path.string() +
                    (has_its_name ? "" : " (as " + same->second.string() + ")"));
  }
  if (found.empty()) return {};
  constexpr std::size_t most = 3;
  const bool is_all = found.size() == held_out.size();
  return {
      "data.train has " + (is_all ? std::string("all of data.val") : "a part of data.val") +
      " as well, " + first_few(std::move(found), most) +
      ": the validation loss shows how well this was memorized; try other files in data.val, or "
      "data.val_fraction = 0.05 in its place"};
}

}  // namespace accrue::train
