#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "accrue/core/error.h"

namespace accrue::train {

/// A temporary folder for a tokenizer's files, removed with the object.
class TokenizerFolder {
 public:
  /// Throws a runtime Error if there is no place for temporary files.
  TokenizerFolder()
      : path_((std::filesystem::temp_directory_path() / "accrue-tokenizer-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw runtime_error("make a folder for a tokenizer", "a place for temporary files",
                          path_ + ": " + std::generic_category().message(errno),
                          "TMPDIR, a folder that can be written");
  }
  ~TokenizerFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TokenizerFolder(const TokenizerFolder&) = delete;
  TokenizerFolder& operator=(const TokenizerFolder&) = delete;

  std::filesystem::path path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace accrue::train
