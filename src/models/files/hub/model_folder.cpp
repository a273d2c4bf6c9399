#include "models/files/hub/model_folder.h"

#include "accrue/core/error.h"

namespace accrue::models {
namespace {

/// Throws if something exists there; a dangling link counts.
void refuse_existing(const std::filesystem::path& file) {
  std::error_code unreadable;
  if (std::filesystem::exists(std::filesystem::symlink_status(file, unreadable)))
    throw usage_error("save a model to " + file.parent_path().string(), "a folder without a model",
                      file.string(), "another folder");
}

}  // namespace

void prepare_model_folder(const std::filesystem::path& folder,
                          std::initializer_list<const char*> files) {
  std::error_code failed;
  if (std::filesystem::exists(folder, failed) && !std::filesystem::is_directory(folder, failed))
    throw usage_error("save a model to " + folder.string(), "a folder, or none there",
                      "something that is no folder", "another name");
  for (const char* file : files) refuse_existing(folder / file);
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw runtime_error("make " + folder.string(), "a folder that can be made", failed.message(),
                        "another folder");
}

void check_context(std::int64_t context, std::int64_t positions, const std::string& origin) {
  if (context > positions)
    throw usage_error("load " + origin + " with model.context = " + std::to_string(context),
                      "at most the " + std::to_string(positions) + " positions it was trained on",
                      std::to_string(context), "model.context = " + std::to_string(positions));
}

}  // namespace accrue::models
