#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/data/source.h"
#include "data/chat/format/chat_format.h"
#include "data/files/file_pool.h"
#include "data/files/fingerprint.h"
#include "data/text/samples/sample_parsers.h"
#include "data/text/sources/sample_index.h"
#include "data/text/tokens/text_cache.h"

namespace accrue::data {

struct JsonlOptions {
  std::int64_t context = 0;      ///< the most inputs of a sample, and of a row
  std::int64_t vocab_bound = 0;  ///< ids must be below; 0: not checked
  bool packing = false;
  bool pairs = false;                                    ///< lines are pairs of sequences
  bool whole = false;                                    ///< SourceOptions::whole
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;  ///< of text; null: bytes
  std::shared_ptr<const ChatFormat> chat = nullptr;      ///< if set, lines may be conversations
  std::filesystem::path cache = {};                      ///< keeps the index; empty: it is not kept
  std::shared_ptr<const TextCache> lines = nullptr;      ///< owns the lines' files; may be null
  std::vector<std::string> notes = {};                   ///< remarks on the origin of the lines
  TellProgress tell_progress = {};
};

/// Samples of different lengths, a line each. One pass at opening reads and checks every line; 12
/// bytes of each stay in memory, and fetch parses the requested lines. If text has a tokenizer, the
/// result of that pass is saved in the cache.
class JsonlSource final : public Source {
 public:
  /// Throws a usage Error of the operation `what` if a line is not a sample or longer than the
  /// context, and if there is no sample or no label counts.
  JsonlSource(std::unique_ptr<const FilePool> files, const JsonlOptions& options,
              const std::string& what);

  std::int64_t size() const override { return index_.size(); }
  std::int64_t vocab() const override;
  bool has_text() const override { return index_.has_text; }
  bool has_conversations() const override { return options_.chat != nullptr; }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return options_.tokenizer; }
  std::int64_t tokens(std::int64_t index) const override;
  std::optional<std::int64_t> uniform_tokens() const override { return std::nullopt; }
  std::vector<std::string> remarks() const override;
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override;
  std::string fingerprint() const override { return fingerprint_.text(); }
  std::vector<DataFile> files() const override { return fingerprint_.files(); }

 private:
  SampleIndex make_index(const std::string& what);
  SampleIndex cached_index(const std::string& what);
  std::size_t file_of(std::int64_t index) const;
  /// The sequences of sample `index` among those of its line; empty if they are missing.
  std::span<const JsonSample> sequences_of(std::int64_t index, const SampleParser& parser) const;
  std::string_view read_line(std::int64_t index, std::string& buffer) const;
  void require_unchanged(std::int64_t index, const SampleParser& parser,
                         const std::optional<LineProblem>& problem) const;

  std::unique_ptr<const FilePool> files_;
  JsonlOptions options_;
  mutable SampleParsers parsers_;
  std::vector<std::string> cache_remarks_;
  SampleIndex index_;
  Fingerprint fingerprint_;
};

}  // namespace accrue::data
