#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accrue/data/source.h"
#include "data/files/file_pool.h"
#include "data/files/fingerprint.h"
#include "data/text/tokens/text_cache.h"
#include "data/text/tokens/token_file.h"

namespace accrue::data {

/// The files that a stream reads.
struct StreamContent {
  std::unique_ptr<const FilePool> files;
  std::vector<TokenLayout> layouts;  ///< the position of the tokens in file i
  /// The text that was tokenized, which identifies the data; null: `files` themselves.
  std::unique_ptr<const FilePool> text = nullptr;
  std::shared_ptr<const TextCache> cache = nullptr;  ///< owns `files` if there is `text`
};

/// The properties of a stream besides its files.
struct StreamTraits {
  Format format = Format::text;                          ///< or tokens
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;  ///< of text; null: bytes
  std::int64_t context = 0;                              ///< T >= 1
  std::int64_t vocab = 0;                                ///< Source::vocab(); 0: not known
  std::int64_t vocab_bound = 0;                          ///< ids must be below; 0: not checked
  bool whole = false;                                    ///< SourceOptions::whole

  /// Tokens of a sample that are not inputs.
  std::int64_t only_predicted() const { return whole ? 0 : 1; }
};

/// Files joined into one stream of tokens, and its samples.
class TokenStream final : public Source {
 public:
  /// Throws TooFewTokens, a usage Error of the operation `what`, if there is no sample.
  TokenStream(StreamContent content, StreamTraits traits, const std::string& what);

  std::int64_t size() const override;
  std::int64_t vocab() const override { return traits_.vocab; }
  bool has_text() const override { return traits_.format == Format::text; }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return traits_.tokenizer; }
  std::vector<std::string> remarks() const override;
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override;
  std::int64_t tokens(std::int64_t) const override { return traits_.context; }
  std::optional<std::int64_t> uniform_tokens() const override { return traits_.context; }
  void check_contents() const override;
  std::string fingerprint() const override { return fingerprint_.text(); }
  std::vector<DataFile> files() const override { return fingerprint_.files(); }

 private:
  using Scratch = std::vector<std::byte>;
  /// Consecutive tokens of one file.
  struct Piece {
    std::size_t file = 0;
    std::int64_t first = 0, count = 0;
  };

  std::int64_t length() const { return ends_.back(); }
  /// Reads tokens [first, first + out.size()) of the stream.
  void read(std::int64_t first, std::span<std::int64_t> out, Scratch& scratch) const;
  /// Reads tokens of one file, which contains them all.
  void read_file(std::size_t file, std::int64_t first, std::span<std::int64_t> out,
                 Scratch& scratch) const;
  /// Pieces of the files that may contain an id outside the vocabulary, in order.
  std::vector<Piece> pieces_to_check() const;
  /// Throws what fetch() would throw for the piece.
  void check(const Piece& piece) const;
  void check_vocab(std::size_t file, std::int64_t first, std::span<const std::int64_t> ids) const;

  const FilePool& pool() const { return *content_.files; }
  const FilePool& identity() const { return content_.text ? *content_.text : *content_.files; }

  StreamContent content_;
  std::vector<std::int64_t> ends_;  ///< the stream's length up to and including file i
  StreamTraits traits_;
  Fingerprint fingerprint_;
  mutable std::once_flag checked_;
};

}  // namespace accrue::data
