#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>

namespace accrue::models {

/// Makes a folder for a model's files, if there is none. Throws a usage Error if something
/// else stands there or one of `files` is in it, a runtime Error if it cannot be made.
void prepare_model_folder(const std::filesystem::path& folder,
                          std::initializer_list<const char*> files);

/// Throws a usage Error naming `origin` where `context` is more than the `positions` that a model
/// of there was trained on.
void check_context(std::int64_t context, std::int64_t positions, const std::string& origin);

}  // namespace accrue::models
