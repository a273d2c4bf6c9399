#include "models/files/gguf/tokenizer/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>

#include "data/tokenizer/pipeline/part_forms.h"
#include "models/files/gguf/tokenizer/gguf_spaces.h"
#include "models/files/gguf/tokenizer/json_members.h"

namespace accrue::models {
namespace {

using nlohmann::json;

// The patterns are those of the models' own tokenizer.json. llama.cpp writes some of them
// differently, with the same meaning unless `other_words` names the differences.

constexpr std::string_view llama3_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view each_digit = R"(\p{N})";

GgufPreTokenizer by_words(std::string_view words) {
  return {.name = {},
          .pre_tokenizer = data::pre_tokenizer_of(
              {data::split_step(words), data::byte_level_step(false, false)})};
}

GgufPreTokenizer dbrx() { return by_words(llama3_words); }

GgufPreTokenizer llama3() {
  GgufPreTokenizer made = by_words(llama3_words);
  made.ignores_merges = made.begins_text = true;
  return made;
}

GgufPreTokenizer qwen2() { return by_words(data::kWordsOfQwen2); }

GgufPreTokenizer tekken() {
  GgufPreTokenizer made = by_words(data::kWordsOfTekken);
  made.ignores_merges = made.begins_text = true;
  // It distinguishes case by A to Z and a to z only, and does not include marks in words.
  made.other_words = "words with accented capitals, of other scripts with capitals or with marks";
  return made;
}

GgufPreTokenizer gpt2() {
  return {.name = {}, .pre_tokenizer = data::byte_level_step(false, true)};
}

GgufPreTokenizer smollm() {
  return {.name = {},
          .pre_tokenizer =
              data::pre_tokenizer_of({data::digits_step(), data::byte_level_step(false, true)})};
}

/// llama.cpp's behaviour if a file names nothing.
GgufPreTokenizer usual() {
  using data::split_step;
  return {.name = {},
          .pre_tokenizer = data::pre_tokenizer_of(
              {split_step(R"([\p{P}\$\+<=>\^~\|]+)"), split_step(data::kWordsOfGpt2),
               split_step(R"(\p{N}+)"), split_step("[0-9][0-9][0-9]"),
               data::byte_level_step(false, false)})};
}

struct Named {
  std::string_view name;
  GgufPreTokenizer (*make)();
  bool is_usual = false;  ///< the main one of several equivalent names
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

/// Whether a step keeps all of a text. One that keeps only its matches does, if they are all of it:
/// the patterns that match all text end with the remaining white space.
bool keeps_all(const json& step, const std::string& regex) {
  const std::string behaviour = text_in(step, "behavior");
  if (flag_in(step, "invert", false)) return behaviour == "Removed" && regex.ends_with(R"(|\s+)");
  return behaviour == "Isolated";
}

/// Appends the effects of a step of a tokenizer.json: the pattern that it isolates, and last, if it
/// represents bytes, "". Returns whether all of it is known.
bool append_step(const json& step, std::vector<std::string>& steps) {
  const std::string type = text_in(step, "type");
  if (type == "ByteLevel") {
    if (flag_in(step, "add_prefix_space", true)) return false;
    if (flag_in(step, "use_regex", true)) steps.emplace_back(data::kWordsOfGpt2);
    steps.emplace_back();
    return true;
  }
  if (type == "Digits" && flag_in(step, "individual_digits", false)) {
    steps.emplace_back(each_digit);
    return true;
  }
  const std::string regex = text_in(member(step, "pattern"), "Regex");
  if (type != "Split" || regex.empty() || !keeps_all(step, regex)) return false;
  steps.push_back(regex);
  return true;
}

/// The effects of a part, one after the other; empty if not all of it is known.
std::vector<std::string> steps_of(const json& part) {
  std::vector<std::string> steps;
  for (const json& step : steps_within(part, "pretokenizers"))
    if (!append_step(step, steps)) return {};
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
