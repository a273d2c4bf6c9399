#pragma once

#include <filesystem>
#include <initializer_list>

namespace accrue::models {

/// Makes a folder for a model's files, where there is none. Throws a usage Error where something
/// else stands there or one of `files` is in it, a runtime Error where it cannot be made.
void prepare_model_folder(const std::filesystem::path& folder,
                          std::initializer_list<const char*> files);

}  // namespace accrue::models
