#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::data {

/// What data files hold.
enum class Format { text, tokens, jsonl, images };
/// The words of data.format.
inline constexpr auto format_words = enum_words<Format>({{Format::text, "text"},
                                                         {Format::tokens, "tokens"},
                                                         {Format::jsonl, "jsonl"},
                                                         {Format::images, "images"}});
constexpr std::string_view to_string(Format format) { return format_words.of(format); }

/// The only tokenizer: a token is a byte of the text.
inline constexpr std::string_view kByteTokenizer = "bytes";

}  // namespace accrue::data
