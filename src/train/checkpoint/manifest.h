#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "accrue/core/error.h"
#include "accrue/models/safetensors.h"

namespace accrue::train {

inline constexpr const char* manifest_file = "manifest.json";

/// The contents of a checkpoint's files when they were written: manifest.json, which is written
/// last. A file that changed since, or came from another step, disagrees with it; and a changed
/// manifest agrees with no file.
struct Manifest {
  struct File {
    std::int64_t bytes = 0;
    std::string checksum;  ///< if the file has no tensors
    /// Of a safetensors file; other files have no header here.
    models::TensorChecksums tensors;
  };
  std::int64_t step = 0;
  std::map<std::string, File> files;  ///< by name
};

/// A usage Error that reports in which way `checkpoint` is not whole.
Error not_whole(const std::filesystem::path& checkpoint, const std::string& expected,
                const std::string& received);

void write_manifest(const std::filesystem::path& checkpoint, const Manifest& manifest);
/// Reads manifest.json; none if the file is missing, as in checkpoints from before there were
/// manifests. Throws a usage Error if the file is not a manifest.
std::optional<Manifest> read_manifest(const std::filesystem::path& checkpoint);

/// Throws a usage Error that names the first file that is missing or has another length.
void check_lengths(const std::filesystem::path& checkpoint, const Manifest& manifest);

/// Reads a safetensors file of the checkpoint. Throws a usage Error that names the file and the
/// first tensor whose bytes differ from those that were written.
void check_tensors(const std::filesystem::path& checkpoint, const Manifest& manifest,
                   const std::string& name);

/// Throws a usage Error if `content`, as read from the file, differs from what was written.
void check_content(const std::filesystem::path& checkpoint, const Manifest& manifest,
                   const std::string& name, const std::string& content);

}  // namespace accrue::train
