#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "accrue/data/source.h"
#include "data/files/file_pool.h"
#include "data/text/tokens/text_cache.h"
#include "data/text/tokens/token_file.h"

namespace accrue::data {

/// Text files as one file of tokens.
struct TextTokens {
  std::shared_ptr<const TextCache> cache;  ///< owns the file if it is temporary
  std::unique_ptr<const FilePool> file;    ///< the one file
  TokenLayout layout;
};

/// The tokens of text files by a tokenizer, each file encoded as a whole and all joined. They are
/// computed on all threads if `cache` does not have them. Throws a usage Error of the operation
/// `what` that names file and place if a text is not UTF-8.
TextTokens tokens_of_text(const FilePool& text, const Tokenizer& tokenizer,
                          std::shared_ptr<TextCache> cache, const TellProgress& tell,
                          const std::string& what);

/// A digest of all the files' bytes, in order, and of a cached file's other inputs (`besides`).
std::string digest_of(const FilePool& files, const std::string& besides);

}  // namespace accrue::data
