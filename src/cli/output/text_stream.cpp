#include "cli/output/text_stream.h"

#include <algorithm>
#include <utility>

#include "accrue/data/source.h"
#include "core/utf8.h"

namespace accrue::cli {
namespace {

/// Whether these bytes, of which there is at least one, may be the beginning of a character.
bool may_become_a_character(std::string_view bytes) {
  const auto value = [](char byte) { return static_cast<unsigned char>(byte); };
  const bool leads = value(bytes[0]) >= 0xc2 && value(bytes[0]) <= 0xf4;
  return leads && bytes.size() < utf8_length(bytes[0]) &&
         std::all_of(bytes.begin() + 1, bytes.end(),
                     [&](char byte) { return (value(byte) & 0xc0) == 0x80; });
}

/// How many bytes are complete characters, or not UTF-8.
std::size_t tellable(std::string_view bytes) {
  std::size_t size = 0;
  while (size < bytes.size()) {
    const std::size_t whole = valid_utf8_prefix(bytes.substr(size));
    size += whole;
    if (whole > 0) continue;
    if (may_become_a_character(bytes.substr(size))) break;
    ++size;
  }
  return size;
}

}  // namespace

TextStream::TextStream(const data::Tokenizer* tokenizer) : tokenizer_(tokenizer) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer, /*skip_special=*/true);
}

std::string TextStream::add(std::int64_t id) {
  if (decoder_) return tokenizer_->has(id) ? decoder_->add(id) : std::string();
  bytes_ += data::bytes_to_text({&id, 1});
  const std::size_t size = tellable(bytes_);
  std::string told = bytes_.substr(0, size);
  bytes_.erase(0, size);
  return told;
}

std::string TextStream::end() { return decoder_ ? decoder_->end() : std::exchange(bytes_, {}); }

}  // namespace accrue::cli
