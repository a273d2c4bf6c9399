#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::data {

/// The contents of data files.
enum class Format { text, tokens, jsonl, chat, parquet, images };
/// The words of data.format.
inline constexpr auto format_words = enum_words<Format>({{Format::text, "text"},
                                                         {Format::tokens, "tokens"},
                                                         {Format::jsonl, "jsonl"},
                                                         {Format::chat, "chat"},
                                                         {Format::parquet, "parquet"},
                                                         {Format::images, "images"}});
constexpr std::string_view to_string(Format format) { return format_words.of(format); }

/// The word of data.tokenizer for tokens that are the bytes of the text.
inline constexpr std::string_view kByteTokenizer = "bytes";
/// The word for the tokenizer of model.from, or bytes if it has none.
inline constexpr std::string_view kAutoTokenizer = "auto";

}  // namespace accrue::data
