#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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
  /// runtime Error where a file shrank, was replaced by one of another size, or cannot be read any
  /// more.
  virtual batch::MicroBatch fetch(std::span<const std::int64_t> indices) const = 0;
  /// Identifies the data: what a resume compares. Covers, of each file in order, the name without
  /// its folder (data may move), the size, and a hash of its bytes: of all of them up to 4 MiB,
  /// else of the first and the last MiB and of 32 blocks of 64 KiB evenly spaced between.
  virtual std::string fingerprint() const = 0;
};

struct SourceOptions {
  /// Shell patterns: *, ?, [..], and ** for any number of folders (links to folders are not
  /// followed by **, and hidden names only where the pattern says the dot). A file that several
  /// match is taken once.
  std::vector<std::string> globs;
  std::string format = "auto";  ///< auto (by suffix: .bin is tokens), text, tokens
  std::string tokenizer = "bytes";
  std::int64_t context = 256;  ///< T
  std::int64_t vocab = 0;      ///< of the model; 0: not known, ids are not checked
};

/// Opens all files that match, sorted by path (as bytes) and joined into one stream of tokens with
/// nothing in between. Sample i is tokens [i*T, i*T + T] (T inputs, T targets shifted by one), also
/// across files; a remainder that fills no sample is left out.
///
/// Text is one token per byte. A token file holds little-endian ids: uint16 without a header
/// (nanoGPT), or after llm.c's header of 256 int32 (magic, version, count): magic 20240520, version
/// 1 for uint16; magic 20240801, version 7 for uint32.
///
/// Files are read with pread, so resident memory does not grow with their size, and at most 64 are
/// open. Throws a usage Error, its operation being `what` (a config key), where a glob matches
/// nothing, formats are mixed, a token file is empty, truncated or corrupt (an odd number of bytes,
/// a header that does not agree with the size, an unknown version), or all files together hold no
/// sample. Empty text files are fine: trees of sources are full of them.
std::unique_ptr<Source> open_source(const SourceOptions& options, const std::string& what);

/// Samples [begin, end) of another source: the training or the held-out part. Throws a usage Error
/// where that is no part of it.
std::unique_ptr<Source> slice(std::shared_ptr<const Source> source, std::int64_t begin,
                              std::int64_t end);

/// Byte tokens back to text, any bytes (not only UTF-8). Throws a usage Error for an id that is no
/// byte.
std::string bytes_to_text(std::span<const std::int64_t> ids);
/// Text as byte tokens, 0-255.
std::vector<std::int64_t> text_to_bytes(std::string_view text);

}  // namespace accrue::data
