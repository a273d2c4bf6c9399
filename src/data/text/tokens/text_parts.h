#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/data/tokenizer.h"
#include "data/files/file_pool.h"

namespace accrue::data {

/// Reads text files by parts of about `wanted_bytes` whose tokens, joined, are those of each file
/// as a whole. A part ends after a line feed between two lines, if the tokens of the 2 KiB before
/// and after it are the same together as separately (docs/notes/text_tokens.md). So a part is as
/// large as its file if a tokenizer puts something before every text (Llama 2's space), or a file
/// has no such position.
class TextParts {
 public:
  static constexpr std::size_t default_bytes = std::size_t{1} << 20;

  /// All are kept by reference. `what` is the operation of errors.
  TextParts(const FilePool& files, const Tokenizer& tokenizer, const std::string& what,
            std::size_t wanted_bytes = default_bytes);

  /// More than a word of any text, and the most that a tokenizer gets at once.
  static constexpr std::size_t most_bytes = std::size_t{1} << 30;

  /// The next part, or none after the last file. Throws a usage Error that names the file if a part
  /// would be larger than `most_bytes`, and the place if a text is not UTF-8.
  std::optional<std::string> next();

 private:
  bool read_more();  ///< false: the file has ended
  /// Where the part may end; 0 if there is no such position yet.
  std::size_t find_end();
  bool is_neutral(std::size_t place);
  std::string take(std::size_t size);

  const FilePool& files_;
  Tokenizer::Encoder encoder_;
  const std::string& what_;
  std::size_t wanted_;
  std::size_t file_ = 0;
  std::int64_t offset_ = 0;    ///< of the file, where pending_ ends
  std::string pending_;        ///< the text read from the file that is in no part yet
  std::size_t looked_at_ = 0;  ///< pending_ cannot end before this position
  std::vector<std::int64_t> whole_, halves_;
};

}  // namespace accrue::data
