#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/atomic_file.h"
#include "core/checksum.h"

namespace accrue {

/// Writes a file that can be checked by itself: the content, followed by a seal of 32 bytes with
/// the content's length and a checksum of it and of the file's name. For files derived from others,
/// whose damage would otherwise not be detected.
class SealedFile {
 public:
  /// Throws the errors of AtomicFile; so do the other functions.
  explicit SealedFile(const std::filesystem::path& path);

  void write(std::string_view bytes);
  /// Writes the seal and puts the file in its place, replacing an existing one.
  void commit();
  /// Writes the seal and puts the file in its place, unless one exists already: that one stays.
  void commit_unless_there();
  /// Of the content so far.
  std::int64_t bytes() const { return bytes_; }

 private:
  void write_seal();

  AtomicFile file_;
  Checksum checksum_;
  std::string name_;
  std::int64_t bytes_ = 0;
};

/// The result of checking a sealed file.
struct SealedContent {
  std::optional<std::int64_t> bytes;  ///< of the content, which begins the file; nothing: damaged
  std::string damage;                 ///< the fault, as words that follow "it"; else empty
};

/// Reads the whole file once and compares it with its seal. A file that cannot be read is damaged.
SealedContent check_sealed(const std::filesystem::path& path);

}  // namespace accrue
