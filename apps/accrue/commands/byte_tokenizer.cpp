#include "commands/byte_tokenizer.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "accrue/core/atomic_file.h"

namespace accrue::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Whether GPT-2's table shows the byte as the character of the same number.
bool shown_as_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/// U+0080 to U+07FF need two bytes, which covers the whole table.
std::string utf8(int code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xc0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3f))};
}

/// GPT-2's bytes_to_unicode: a printable character for every byte.
std::array<std::string, 256> byte_characters() {
  std::array<std::string, 256> characters;
  int next_free = 256;
  for (int byte = 0; byte < 256; ++byte)
    characters[static_cast<std::size_t>(byte)] = utf8(shown_as_itself(byte) ? byte : next_free++);
  return characters;
}

Json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

Json tokenizer() {
  Json vocabulary = Json::object();
  const auto characters = byte_characters();
  for (std::size_t byte = 0; byte < characters.size(); ++byte) vocabulary[characters[byte]] = byte;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level()},
          {"post_processor", nullptr},
          {"decoder", byte_level()},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocabulary},
            {"merges", Json::array()}}}};
}

}  // namespace

void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t context) {
  const Json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                    {"model_max_length", context},
                    {"clean_up_tokenization_spaces", false}};
  write_file_atomically(folder / "tokenizer.json", tokenizer().dump(1) + "\n");
  write_file_atomically(folder / "tokenizer_config.json", config.dump(1) + "\n");
}

}  // namespace accrue::cli
