#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace accrue::data {

// Parts of a tokenizer.json in the form in which the library tokenizers writes them. The patterns
// are those of the models' own files.

/// The words of GPT-2 (Radford et al. 2019, encoder.py).
inline constexpr std::string_view kWordsOfGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
/// Of Qwen 2 and 3.
inline constexpr std::string_view kWordsOfQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// Of Mistral's newer models.
inline constexpr std::string_view kWordsOfTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The mark for a space in SentencePiece's tokens.
inline constexpr std::string_view kMarkedSpace = "\u2581";

/// A step without settings.
inline nlohmann::json plain_step(const char* type) { return {{"type", type}}; }

inline nlohmann::json byte_level_step(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

/// Each match of the pattern is a word, and so is the text between two.
inline nlohmann::json split_step(std::string_view pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

/// Each digit is a word.
inline nlohmann::json digits_step() { return {{"type", "Digits"}, {"individual_digits", true}}; }

/// A pre-tokenizer of several steps.
inline nlohmann::json pre_tokenizer_of(std::vector<nlohmann::json> steps) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

inline nlohmann::json replace_step(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

/// The decoder of tokens whose spaces are marked.
inline nlohmann::json decoder_of_marked_spaces(bool strips_first_space) {
  nlohmann::json steps = nlohmann::json::array(
      {replace_step(kMarkedSpace, " "), plain_step("ByteFallback"), plain_step("Fuse")});
  if (strips_first_space)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

}  // namespace accrue::data
