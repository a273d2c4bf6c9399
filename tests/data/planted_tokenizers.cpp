#include "planted_tokenizers.h"

#include "data/tokenizer/unicode/byte_characters.h"

namespace accrue::data::testing {
namespace {

using nlohmann::json;

json model_of(json vocab, const std::vector<std::pair<std::string, std::string>>& merges) {
  json stated = json::array();
  for (const auto& [left, right] : merges) {
    stated.push_back({left, right});
    const auto next = static_cast<std::int64_t>(vocab.size());
    vocab.emplace(left + right, next);
  }
  return {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(stated)}};
}

json of_parts(json model, json normalizer, json pre_tokenizer, json decoder) {
  return {{"added_tokens", json::array()},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

json byte_vocabulary() {
  json vocab = json::object();
  const auto& characters = byte_characters();
  for (std::size_t byte = 0; byte < characters.size(); ++byte) vocab[characters[byte]] = byte;
  return vocab;
}

/// ASCII characters and the marked space; all others are bytes.
json character_model(const std::vector<std::pair<std::string, std::string>>& merges) {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    vocab[name] = byte;
  }
  vocab["▁"] = 256;
  vocab["<unk>"] = 257;
  for (char c = '!'; c <= '~'; ++c) vocab[std::string(1, c)] = 258 + (c - '!');
  vocab["\n"] = 258 + 94;
  json model = model_of(std::move(vocab), merges);
  model["byte_fallback"] = true;
  model["unk_token"] = "<unk>";
  return model;
}

const json spaces_shown{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
const json shown_as_spaces{
    {"type", "Sequence"},
    {"decoders",
     {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
      {{"type", "ByteFallback"}},
      {{"type", "Fuse"}}}}};

}  // namespace

json planted_gpt2() {
  const json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  return of_parts(
      model_of(byte_vocabulary(),
               {{"a", "b"}, {"Ġ", "a"}, {"Ċ", "Ċ"}, {"ab", "ab"}, {"Ġ", "Ġ"}, {"e", "d"}}),
      nullptr, byte_level, byte_level);
}

json planted_one_word() {
  return of_parts(character_model({{"a", "b"}, {"\n", "b"}, {"b", "\n"}, {"▁", "a"}}), spaces_shown,
                  nullptr, shown_as_spaces);
}

json planted_with_prefix() {
  const json prefixed{{"type", "Sequence"},
                      {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, spaces_shown}}};
  return of_parts(character_model({{"a", "b"}, {"▁", "a"}}), prefixed, nullptr, shown_as_spaces);
}

json planted_with_id(std::int64_t id) {
  json tokenizer = planted_gpt2();
  tokenizer["model"]["vocab"]["<last>"] = id;
  tokenizer["added_tokens"] = {{{"id", id}, {"content", "<last>"}, {"special", true}}};
  return tokenizer;
}

}  // namespace accrue::data::testing
