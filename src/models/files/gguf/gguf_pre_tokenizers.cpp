#include "models/files/gguf/gguf_pre_tokenizers.h"

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

namespace accrue::models {
namespace {

using Json = nlohmann::ordered_json;

Json byte_level(bool cuts_as_gpt2) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", cuts_as_gpt2}};
}

Json split(std::string_view pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

Json digits() { return {{"type", "Digits"}, {"individual_digits", true}}; }

Json sequence(std::vector<Json> steps) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

// The patterns are those of the models' own tokenizer.json.

constexpr std::string_view llama3_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view tekken_words =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json nfc() { return {{"type", "NFC"}}; }

GgufPreTokenizer by_words(std::string_view words) {
  return {.pre_tokenizer = sequence({split(words), byte_level(false)}), .normalizer = nullptr};
}

GgufPreTokenizer llama3() {
  GgufPreTokenizer made = by_words(llama3_words);
  made.ignores_merges = made.begins_text = true;
  return made;
}

GgufPreTokenizer qwen2() {
  GgufPreTokenizer made = by_words(qwen2_words);
  made.normalizer = nfc();
  return made;
}

GgufPreTokenizer tekken() {
  GgufPreTokenizer made = by_words(tekken_words);
  made.ignores_merges = made.begins_text = true;
  return made;
}

GgufPreTokenizer gpt2() { return {.pre_tokenizer = byte_level(true), .normalizer = nullptr}; }

GgufPreTokenizer smollm() {
  return {.pre_tokenizer = sequence({digits(), byte_level(true)}), .normalizer = nullptr};
}

/// What llama.cpp does where a file names nothing.
GgufPreTokenizer usual() {
  return {.pre_tokenizer = sequence({split(R"([\p{P}\$\+<=>\^~\|]+)"), split(R"(\p{N}+)"),
                                     split("[0-9][0-9][0-9]"), byte_level(true)}),
          .normalizer = nullptr};
}

struct Named {
  std::string_view name;
  GgufPreTokenizer (*make)();
};

/// The first name of those that mean the same is written.
constexpr std::array<Named, 11> known_cuts{{{"llama-bpe", llama3},
                                            {"llama3", llama3},
                                            {"llama-v3", llama3},
                                            {"qwen2", qwen2},
                                            {"deepseek-r1-qwen", qwen2},
                                            {"gpt-2", gpt2},
                                            {"smollm", smollm},
                                            {"starcoder", smollm},
                                            {"refact", smollm},
                                            {"tekken", tekken},
                                            {"default", usual}}};

bool flag_of(const Json& part, const char* key, bool absent) {
  const auto found = part.find(key);
  return found != part.end() && found->is_boolean() ? found->get<bool>() : absent;
}

std::string text_of(const Json& part, const char* key) {
  const auto found = part.find(key);
  return found != part.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Appends what a part of a tokenizer.json does, step by step. Returns whether all of it is known.
bool append_steps(const Json& part, std::vector<std::string>& steps) {
  if (!part.is_object()) return false;
  const std::string type = text_of(part, "type");
  if (type == "Sequence" && part.contains("pretokenizers")) {
    for (const Json& step : part["pretokenizers"])
      if (!append_steps(step, steps)) return false;
    return true;
  }
  if (type == "ByteLevel") {
    if (flag_of(part, "add_prefix_space", true)) return false;
    steps.emplace_back(flag_of(part, "use_regex", true) ? "words of GPT-2" : "bytes");
    return true;
  }
  if (type == "Digits" && flag_of(part, "individual_digits", false)) {
    steps.emplace_back("digits");
    return true;
  }
  const bool is_plain = type == "Split" && text_of(part, "behavior") == "Isolated" &&
                        !flag_of(part, "invert", false) && part.contains("pattern") &&
                        part["pattern"].is_object();
  if (!is_plain || text_of(part["pattern"], "Regex").empty()) return false;
  steps.push_back("split " + text_of(part["pattern"], "Regex"));
  return true;
}

}  // namespace

std::optional<GgufPreTokenizer> find_gguf_pre_tokenizer(std::string_view name) {
  for (const Named& known : known_cuts)
    if (known.name == name) return known.make();
  return std::nullopt;
}

std::string listed_gguf_pre_tokenizers() {
  std::string list;
  for (const Named& known : known_cuts)
    list += (list.empty() ? "" : ", ") + std::string(known.name);
  return list;
}

std::optional<std::string> name_of_pre_tokenizer(const Json& pre_tokenizer) {
  std::vector<std::string> steps;
  if (!append_steps(pre_tokenizer, steps)) return std::nullopt;
  for (const Named& known : known_cuts) {
    std::vector<std::string> of_known;
    append_steps(known.make().pre_tokenizer, of_known);
    if (of_known == steps) return std::string(known.name);
  }
  return std::nullopt;
}

}  // namespace accrue::models
