#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/descriptor.h"
#include "models/files/tensors/safetensors_header.h"

namespace accrue::models {

/// A file of tensors, open for reading at any offset.
class InputFile {
 public:
  /// `format` is the expected format, for errors. Throws a usage Error if the file is not readable.
  explicit InputFile(const std::filesystem::path& path, std::string format = "safetensors");

  const std::string& name() const { return name_; }
  std::int64_t bytes() const { return bytes_; }

  /// Throws a runtime Error if the file has become shorter.
  void read_at(std::int64_t offset, void* out, std::int64_t count) const;
  /// The checksum of `count` bytes from `offset`, read by pieces.
  std::string checksum_at(std::int64_t offset, std::int64_t count) const;

 private:
  Error unreadable(std::string_view reason) const;

  std::string name_, format_;
  Descriptor descriptor_;
  std::int64_t bytes_ = 0;
};

/// The part of a file before the tensors' bytes.
struct FileHead {
  std::string bytes;  ///< the header's length and its JSON
  SafetensorsHeader header;

  std::int64_t data_offset() const { return static_cast<std::int64_t>(bytes.size()); }
};

/// Reads the head of a file, and checks it for consistency, also with the length of the file.
/// Throws a usage Error that names the file, the tensor and the problem.
FileHead read_head(const InputFile& file);

}  // namespace accrue::models
