#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>

namespace accrue::models {

/// Creates a folder for a model's files, if there is none. Throws a usage Error if something else
/// is there or one of `files` is in it, a runtime Error if it cannot be created.
void prepare_model_folder(const std::filesystem::path& folder,
                          std::initializer_list<const char*> files);

/// Throws a usage Error naming `origin` if `context` is more than the `positions` that its model
/// was trained on.
void check_context(std::int64_t context, std::int64_t positions, const std::string& origin);

}  // namespace accrue::models
