#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/data/source.h"
#include "data/files/file_pool.h"
#include "data/text/samples/sample_parsers.h"

namespace accrue::data {

/// The keys of a file's lines that are not read.
struct UnreadKeys {
  std::size_t file = 0;
  std::vector<std::string> names;  ///< in order of appearance; one more than
                                   ///< most_unread_names means that there are others
  bool operator==(const UnreadKeys&) const = default;
};

/// The places of the samples of JSON lines files, and their common properties.
struct SampleIndex {
  std::vector<std::int64_t> begins;   ///< where sample i's line begins in its file
  std::vector<std::int32_t> lengths;  ///< sample i's input tokens; for a pair those of both
  /// Which of its line's samples sample i is; empty if each line has one.
  std::vector<std::uint16_t> parts;
  std::vector<std::int64_t> ends;  ///< how many samples there are up to and including file i
  std::int64_t too_short = 0;      ///< lines of too few tokens, which are left out
  bool has_ids = false, has_text = false, has_counting_label = false;
  bool has_alpaca = false, has_sharegpt = false;  ///< some line has that form
  std::vector<UnreadKeys> unread;                 ///< of the files that have such keys

  std::int64_t size() const { return static_cast<std::int64_t>(begins.size()); }
  std::size_t part_of(std::int64_t sample) const {
    return parts.empty() ? 0 : parts[static_cast<std::size_t>(sample)];
  }
  bool operator==(const SampleIndex&) const = default;
};

/// The possible lengths of samples, in tokens.
struct SampleLengths {
  std::int64_t context = 0;         ///< the most inputs
  std::int64_t only_predicted = 1;  ///< additional tokens at their end

  std::string least_in_words() const { return only_predicted == 0 ? "one token" : "two tokens"; }
};

/// Reads and checks every line, on all threads. Throws a usage Error of the operation `what` that
/// names the place if a line is not a sample or a sequence has more inputs than the context, and if
/// there is no sample or no label counts.
SampleIndex index_samples(const FilePool& files, SampleParsers& parsers,
                          const SampleLengths& lengths, const TellProgress& tell,
                          const std::string& what);

/// An index as the bytes of a file, and back: none if the bytes are something else.
std::string to_bytes(const SampleIndex& index);
std::optional<SampleIndex> index_of_bytes(std::string_view bytes);

/// FILE:LINE, for people.
std::string place_of_line(const FilePool& files, std::size_t file, std::int64_t line);

/// The runtime Error for a line that begins at that byte and differs from when the file was
/// opened.
Error changed_line(const FilePool& files, std::size_t file, std::int64_t begin);

}  // namespace accrue::data
