#include "data/text/tokens/text_tokens.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/checksum.h"
#include "data/text/tokens/text_parts.h"
#include "data/text/tokens/token_bytes.h"

namespace accrue::data {
namespace {

/// Changes whenever the files of the same text and tokenizer do.
constexpr const char* cached_form = "tokens 3";

/// Encodes parts of text concurrently, each on one thread, which caches the words that it has seen.
class ParallelEncoder {
 public:
  explicit ParallelEncoder(const Tokenizer& tokenizer) : width_(token_width(tokenizer.vocab())) {
    for (int thread = 0; thread < at::get_num_threads(); ++thread)
      encoders_.emplace_back(tokenizer);
  }

  std::size_t threads() const { return encoders_.size(); }

  /// The ids of part `i`, as bytes.
  std::vector<std::string> encode(const std::vector<std::string>& parts) {
    std::vector<std::string> encoded(parts.size());
    const auto count = static_cast<std::int64_t>(parts.size());
    const auto lanes = static_cast<std::int64_t>(encoders_.size());
    at::parallel_for(0, lanes, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> ids;
      for (std::int64_t lane = begin; lane < end; ++lane)
        for (std::int64_t i = lane; i < count; i += lanes) {
          const auto place = static_cast<std::size_t>(i);
          ids.clear();
          encoders_[static_cast<std::size_t>(lane)].encode(parts[place], ids);
          append_ids(ids, width_, encoded[place]);
        }
    });
    return encoded;
  }

 private:
  std::int64_t width_;
  std::vector<Tokenizer::Encoder> encoders_;
};

std::int64_t all_bytes(const FilePool& files) {
  std::int64_t bytes = 0;
  for (std::size_t file = 0; file < files.count(); ++file) bytes += files.bytes(file);
  return bytes;
}

void write_tokens(const FilePool& text, const Tokenizer& tokenizer, const WriteBytes& write,
                  const TellProgress& tell, const std::string& what) {
  constexpr std::size_t parts_a_thread = 4;
  TextParts reader(text, tokenizer, what);
  ParallelEncoder encoder(tokenizer);
  std::vector<std::string> parts;
  std::int64_t done = 0;
  const std::int64_t all = all_bytes(text);
  while (true) {
    parts.clear();
    // Both count and size are limited: small files are many, and a large one may be a single part.
    const std::size_t most_parts = 1024 * encoder.threads(),
                      enough_bytes = parts_a_thread * encoder.threads() * TextParts::default_bytes;
    for (std::size_t bytes = 0; parts.size() < most_parts && bytes < enough_bytes;) {
      std::optional<std::string> part = reader.next();
      if (!part) break;
      bytes += part->size();
      done += std::ssize(*part);
      parts.push_back(std::move(*part));
    }
    if (parts.empty()) return;
    for (const std::string& ids : encoder.encode(parts)) write(ids);
    if (tell) tell(done, all);
  }
}

}  // namespace

std::string digest_of(const FilePool& files, const std::string& besides) {
  constexpr std::int64_t block = std::int64_t{1} << 20;
  Checksum all;
  all.add(besides);
  std::vector<std::byte> buffer;
  for (std::size_t file = 0; file < files.count(); ++file) {
    const std::int64_t bytes = files.bytes(file);
    all.add("\n" + std::to_string(bytes) + "\n");
    for (std::int64_t offset = 0; offset < bytes; offset += block) {
      buffer.resize(static_cast<std::size_t>(std::min(block, bytes - offset)));
      files.read(file, offset, buffer);
      all.add({reinterpret_cast<const char*>(buffer.data()), buffer.size()});
    }
  }
  return all.text();
}

TextTokens tokens_of_text(const FilePool& text, const Tokenizer& tokenizer,
                          std::shared_ptr<TextCache> cache, const TellProgress& tell,
                          const std::string& what) {
  const std::string digest =
      digest_of(text, std::string(cached_form) + " " + tokenizer.fingerprint());
  const FileHead kept = cache->file(digest + ".tokens", [&](const WriteBytes& write) {
    write_tokens(text, tokenizer, write, tell, what);
  });
  TextTokens tokens;
  tokens.file = std::make_unique<const FilePool>(std::vector{kept}, what);
  const std::int64_t width = token_width(tokenizer.vocab());
  tokens.layout = {.offset = 0, .tokens = tokens.file->bytes(0) / width, .width = width};
  tokens.cache = std::move(cache);
  return tokens;
}

}  // namespace accrue::data
