#include "train/checkpoint/run_links.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

bool is_link(const fs::path& path) {
  std::error_code unreadable;
  return fs::is_symlink(path, unreadable);
}

std::string target_of(const fs::path& link) {
  std::error_code unreadable;
  return fs::read_symlink(link, unreadable).string();
}

}  // namespace

Error foreign_entry_error(const fs::path& file, const std::string& obstacle) {
  return usage_error("write " + file.string(), "a file of the run's own, or none there", obstacle,
                     "removing it, or putting a copy of what it leads to in its place");
}

std::vector<std::string> links_of_run(const RunDirectory& run) {
  for (const fs::path& file : {run.config_file(), run.run_file(), run.metrics_file()})
    if (is_link(file)) throw foreign_entry_error(file, "a link to " + target_of(file));
  std::vector<std::string> remarks;
  const fs::path root = run.root().lexically_normal();
  const fs::path beside = (root.has_filename() ? root : root.parent_path()).parent_path();
  for (const fs::path& folder :
       {run.checkpoints(), run.tensorboard_folder(), run.tokenizer_folder(),
        beside / ".accrue-text", beside / ".accrue-input"}) {
    if (!is_link(folder)) continue;
    std::error_code unreadable;
    if (!fs::is_directory(folder, unreadable))
      throw foreign_entry_error(folder, "a link to " + target_of(folder) + ", which is no folder");
    remarks.push_back(folder.string() + " is a link: what the run writes there goes to " +
                      fs::canonical(folder, unreadable).string());
  }
  return remarks;
}

}  // namespace accrue::train
