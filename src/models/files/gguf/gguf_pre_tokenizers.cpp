#include "models/files/gguf/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>

namespace accrue::models {
namespace {

using nlohmann::json;

// The patterns are those of the models' own tokenizer.json. llama.cpp writes some of them in other
// words, which mean the same unless `other_words` says which differ.

constexpr std::string_view gpt2_words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view tekken_words =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view each_digit = R"(\p{N})";

json byte_level(bool cuts_as_gpt2) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", cuts_as_gpt2}};
}

json split(std::string_view pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

json digits() { return {{"type", "Digits"}, {"individual_digits", true}}; }

json sequence(std::vector<json> steps) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

GgufPreTokenizer by_words(std::string_view words) {
  return {.name = {}, .pre_tokenizer = sequence({split(words), byte_level(false)})};
}

GgufPreTokenizer dbrx() { return by_words(llama3_words); }

GgufPreTokenizer llama3() {
  GgufPreTokenizer made = by_words(llama3_words);
  made.ignores_merges = made.begins_text = true;
  return made;
}

GgufPreTokenizer qwen2() { return by_words(qwen2_words); }

GgufPreTokenizer tekken() {
  GgufPreTokenizer made = by_words(tekken_words);
  made.ignores_merges = made.begins_text = true;
  // It tells upper from lower case by A to Z and a to z, and takes no marks into words.
  made.other_words = "words with accented capitals, of other scripts with capitals or with marks";
  return made;
}

GgufPreTokenizer gpt2() { return {.name = {}, .pre_tokenizer = byte_level(true)}; }

GgufPreTokenizer smollm() {
  return {.name = {}, .pre_tokenizer = sequence({digits(), byte_level(true)})};
}

/// What llama.cpp does where a file names nothing.
GgufPreTokenizer usual() {
  return {
      .name = {},
      .pre_tokenizer = sequence({split(R"([\p{P}\$\+<=>\^~\|]+)"), split(gpt2_words),
                                 split(R"(\p{N}+)"), split("[0-9][0-9][0-9]"), byte_level(false)})};
}

struct Named {
  std::string_view name;
  GgufPreTokenizer (*make)();
  bool is_usual = false;  ///< of several names that mean the same
};

constexpr std::array<Named, 23> known_cuts{{{"llama-bpe", llama3, true},
                                            {"llama3", llama3},
                                            {"llama-v3", llama3},
                                            {"falcon3", llama3},
                                            {"falcon-h1", llama3},
                                            {"pixtral", llama3},
                                            {"midm-2.0", llama3},
                                            {"lfm2", llama3},
                                            {"dbrx", dbrx, true},
                                            {"smaug-bpe", dbrx},
                                            {"qwen2", qwen2, true},
                                            {"deepseek-r1-qwen", qwen2},
                                            {"kormo", qwen2},
                                            {"megrez", qwen2},
                                            {"gpt-2", gpt2, true},
                                            {"phi-2", gpt2},
                                            {"mellum", gpt2},
                                            {"exaone4", gpt2},
                                            {"smollm", smollm, true},
                                            {"starcoder", smollm},
                                            {"refact", smollm},
                                            {"tekken", tekken, true},
                                            {"default", usual, true}}};

GgufPreTokenizer made_of(const Named& known) {
  GgufPreTokenizer made = known.make();
  made.name = known.name;
  return made;
}

bool flag_of(const json& part, const char* key, bool absent) {
  const auto found = part.find(key);
  return found != part.end() && found->is_boolean() ? found->get<bool>() : absent;
}

std::string text_at(const json& part, const char* key) {
  const auto found = part.find(key);
  return found != part.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Whether a step keeps all of a text. One that keeps its matches alone does, if they are all of
/// it: the patterns that match all text end in what is left, white space.
bool keeps_all(const json& step, const std::string& regex) {
  const std::string behaviour = text_at(step, "behavior");
  if (flag_of(step, "invert", false)) return behaviour == "Removed" && regex.ends_with(R"(|\s+)");
  return behaviour == "Isolated";
}

/// Appends what a part of a tokenizer.json does, step by step: the patterns that it isolates, and
/// last that it shows bytes, "". Returns whether all of it is known.
bool append_steps(const json& part, std::vector<std::string>& steps) {
  if (!part.is_object()) return false;
  const std::string type = text_at(part, "type");
  if (type == "Sequence" && part.contains("pretokenizers")) {
    for (const json& step : part["pretokenizers"])
      if (!append_steps(step, steps)) return false;
    return true;
  }
  if (type == "ByteLevel") {
    if (flag_of(part, "add_prefix_space", true)) return false;
    if (flag_of(part, "use_regex", true)) steps.emplace_back(gpt2_words);
    steps.emplace_back();
    return true;
  }
  if (type == "Digits" && flag_of(part, "individual_digits", false)) {
    steps.emplace_back(each_digit);
    return true;
  }
  if (type != "Split" || !part.contains("pattern") || !part["pattern"].is_object()) return false;
  const std::string regex = text_at(part["pattern"], "Regex");
  if (regex.empty() || !keeps_all(part, regex)) return false;
  steps.push_back(regex);
  return true;
}

std::vector<std::string> steps_of(const json& part) {
  std::vector<std::string> steps;
  if (!append_steps(part, steps)) steps.clear();
  return steps;
}

}  // namespace

std::optional<GgufPreTokenizer> find_gguf_pre_tokenizer(std::string_view name) {
  const auto found = std::find_if(known_cuts.begin(), known_cuts.end(),
                                  [&](const Named& known) { return known.name == name; });
  return found == known_cuts.end() ? std::nullopt : std::optional(made_of(*found));
}

std::string listed_gguf_pre_tokenizers() {
  std::string list;
  for (const Named& known : known_cuts)
    if (known.is_usual) list += (list.empty() ? "" : ", ") + std::string(known.name);
  return list;
}

std::vector<GgufPreTokenizer> gguf_pre_tokenizers_like(const json& pre_tokenizer) {
  std::vector<GgufPreTokenizer> alike;
  const std::vector<std::string> steps = steps_of(pre_tokenizer);
  if (steps.empty()) return alike;
  for (const Named& known : known_cuts)
    if (known.is_usual)
      if (GgufPreTokenizer made = made_of(known); steps_of(made.pre_tokenizer) == steps)
        alike.push_back(std::move(made));
  return alike;
}

bool only_cuts_bytes(const json& pre_tokenizer) {
  const std::vector<std::string> steps = steps_of(pre_tokenizer);
  return !steps.empty() && steps.back().empty();
}

}  // namespace accrue::models
