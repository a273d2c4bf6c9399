#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/files/file_pool.h"

namespace accrue::data {

/// A source's fingerprint, made when it is first asked for. Safe from several threads.
class Fingerprint {
 public:
  /// `kind` says the format, and whatever else a resume must agree on; `parts` are hashed beside
  /// the files. `files` outlives this.
  Fingerprint(std::string kind, const FilePool& files, std::vector<std::string> parts = {});
  std::string text() const;

 private:
  std::string make() const;

  std::string kind_;
  const FilePool& files_;
  std::vector<std::string> parts_;
  mutable std::mutex mutex_;
  mutable std::optional<std::string> text_;
};

}  // namespace accrue::data
