#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace accrue::testing {

/// A tokenizer.json: letters, spaces and line feeds as bytes, "qu" and "the" as tokens, and an end
/// of text.
inline nlohmann::json small_tokenizer() {
  using nlohmann::json;
  json vocab = json::object();
  for (char c = '!'; c <= '~'; ++c) vocab[std::string(1, c)] = vocab.size();
  for (const char* text : {"Ġ", "Ċ", "th", "the", "qu"}) vocab[text] = vocab.size();
  const json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  return {{"added_tokens", {{{"id", vocab.size()}, {"content", "<end>"}, {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", bytes},
          {"post_processor", nullptr},
          {"decoder", bytes},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"t h", "th e", "q u"}}}}};
}

}  // namespace accrue::testing
