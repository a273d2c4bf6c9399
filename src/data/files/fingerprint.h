#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "accrue/data/source.h"
#include "data/files/file_pool.h"

namespace accrue::data {

/// A fingerprint's kind with the tokenizer of the text, if there is one.
std::string with_tokenizer(std::string kind, const Tokenizer* tokenizer);

/// A source's fingerprint and its files', computed when one of them is first requested. Safe from
/// several threads.
class Fingerprint {
 public:
  /// `kind` is the format, with anything else on which a resumption must agree; `parts` are hashed
  /// together with the files. `files` outlives this.
  Fingerprint(std::string kind, const FilePool& files, std::vector<std::string> parts = {});
  std::string text() const;
  std::vector<DataFile> files() const;  ///< Source::files()

 private:
  void make_once() const;
  void make() const;
  DataFile described(std::size_t file) const;

  std::string kind_;
  const FilePool& files_;
  std::vector<std::string> parts_;
  mutable std::once_flag made_;
  mutable std::string text_;
  mutable std::vector<std::uint64_t> of_files_;
};

}  // namespace accrue::data
