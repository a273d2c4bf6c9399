#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "accrue/batch/micro_batch.h"

namespace accrue::data {

/// Samples with random access: `fetch` is a pure function of the indices, so any micro-batch can be
/// made again. Safe to call from several threads.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;   ///< samples
  virtual std::int64_t vocab() const = 0;  ///< ids are in [0, vocab); 0 where the files do not tell
  /// Samples `indices` (each in [0, size())) as one micro-batch; sample_ids are left to the caller.
  /// Throws a usage Error naming file and position where a token lies outside the vocabulary, and a
  /// runtime Error where a file changed or cannot be read any more.
  virtual batch::MicroBatch fetch(std::span<const std::int64_t> indices) const = 0;
  /// Identifies the data: names, sizes and a hash of contents; what a resume compares.
  virtual std::string fingerprint() const = 0;
};

struct SourceOptions {
  std::vector<std::string> globs;
  std::string format = "auto";      ///< auto (by suffix: .bin is tokens), text, tokens
  std::string tokenizer = "bytes";
  std::int64_t context = 256;       ///< T
  std::int64_t vocab = 0;           ///< of the model; 0: not known, ids are not checked
};

/// Opens all files that match, in sorted order and joined into one stream of tokens. Sample i is tokens
/// [i*T, i*T + T] (T inputs, T targets shifted by one); a remainder that fills no sample is left out.
/// Files are read with pread, so resident memory does not grow with their size.
/// Throws a usage Error where nothing matches, a file is empty, truncated or corrupt (an odd number
/// of bytes, a header that does not agree with the size), or all files together hold no sample.
std::unique_ptr<Source> open_source(const SourceOptions& options, const std::string& what);

/// Samples [begin, end) of another source: the training or the held-out part.
std::unique_ptr<Source> slice(std::shared_ptr<const Source> source, std::int64_t begin,
                              std::int64_t end);

/// Byte tokens back to text.
std::string bytes_to_text(std::span<const std::int64_t> ids);

}  // namespace accrue::data
