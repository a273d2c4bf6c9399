#include "data/tokenizer/folder/class_parts.h"

#include <array>

#include "data/tokenizer/pipeline/part_forms.h"

namespace accrue::data {
namespace {

using Part = nlohmann::json;
using PartSettings = nlohmann::ordered_json;

constexpr const char* kEndOfText = "<|endoftext|>";

/// As kWordsOfQwen2, with marks as letters.
constexpr std::string_view kWordsOfQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Part marked_spaces(const char* prepend_scheme) {
  return {{"type", "Metaspace"},
          {"replacement", kMarkedSpace},
          {"prepend_scheme", prepend_scheme},
          {"split", false}};
}

/// The settings that a class reads.
class ClassSettings {
 public:
  ClassSettings(const PartSettings& settings, const TokenReader& reader)
      : settings_(settings), reader_(reader) {}

  /// For a class whose ByteLevel takes the value unchanged: null is another type.
  bool adds_prefix_space() const { return flag("add_prefix_space", false, /*null=*/std::nullopt); }
  bool adds_prefix_space(bool otherwise) const {
    return flag("add_prefix_space", otherwise, otherwise);
  }
  bool is_legacy() const { return flag("legacy", false, false); }

 private:
  bool flag(const char* key, bool absent, std::optional<bool> null) const {
    const auto found = settings_.find(key);
    if (found == settings_.end()) return absent;
    if (found->is_boolean()) return found->get<bool>();
    if (found->is_null() && null) return *null;
    reader_.refuse(key, "true or false", *found);
  }

  const PartSettings& settings_;
  const TokenReader& reader_;
};

ClassParts gpt2_parts(const ClassSettings& settings) {
  ClassParts parts;
  parts.named = {{"unk_token", kEndOfText},
                 {"bos_token", kEndOfText},
                 {"eos_token", kEndOfText},
                 {"pad_token", std::nullopt}};
  parts.pre_tokenizer = byte_level_step(settings.adds_prefix_space(), true);
  parts.decoder = byte_level_step(true, true);
  return parts;
}

ClassParts gpt_neox_parts(const ClassSettings& settings) {
  ClassParts parts = gpt2_parts(settings);
  parts.named.back().second = "<|padding|>";
  parts.normalizer = plain_step("NFC");
  parts.around = ClassParts::PostProcessorRule::nothing;
  return parts;
}

ClassParts roberta_parts(const ClassSettings& settings) {
  ClassParts parts = gpt2_parts(settings);
  parts.named = {{"bos_token", "<s>"},    {"eos_token", "</s>"},  {"sep_token", "</s>"},
                 {"cls_token", "<s>"},    {"unk_token", "<unk>"}, {"pad_token", "<pad>"},
                 {"mask_token", "<mask>"}};
  parts.around = ClassParts::PostProcessorRule::of_classifier;
  return parts;
}

ClassParts cohere_parts(const ClassSettings& settings) {
  ClassParts parts;
  parts.named = {{"unk_token", "<UNK>"},
                 {"bos_token", "<BOS_TOKEN>"},
                 {"eos_token", "<|END_OF_TURN_TOKEN|>"},
                 {"pad_token", "<PAD>"},
                 {"cls_token", "<CLS>"},
                 {"sep_token", "<SEP>"},
                 {"mask_token", "<MASK_TOKEN>"}};
  const bool adds_space = settings.adds_prefix_space();
  parts.normalizer = plain_step("NFC");
  parts.pre_tokenizer = pre_tokenizer_of({digits_step(), byte_level_step(adds_space, true)});
  parts.decoder = byte_level_step(adds_space, true);
  parts.afterwards = ClassParts::SpecialTokenRule::made_special;
  return parts;
}

ClassParts qwen_parts(const ClassSettings& settings, std::string_view words) {
  ClassParts parts;
  parts.named = {{"unk_token", kEndOfText},
                 {"bos_token", std::nullopt},
                 {"eos_token", kEndOfText},
                 {"pad_token", kEndOfText}};
  parts.normalizer = plain_step("NFC");
  const bool adds_space = settings.adds_prefix_space(false);
  parts.pre_tokenizer = pre_tokenizer_of({split_step(words), byte_level_step(adds_space, false)});
  parts.decoder = byte_level_step(true, true);
  return parts;
}

ClassParts qwen2_parts(const ClassSettings& settings) {
  ClassParts parts = qwen_parts(settings, kWordsOfQwen2);
  parts.afterwards = ClassParts::SpecialTokenRule::added_again;
  return parts;
}

ClassParts qwen35_parts(const ClassSettings& settings) {
  return qwen_parts(settings, kWordsOfQwen35);
}

ClassParts llama_parts(const ClassSettings& settings) {
  ClassParts parts;
  parts.named = {{"unk_token", "<unk>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const bool adds_space = settings.adds_prefix_space(true);
  parts.pre_tokenizer = marked_spaces(!adds_space            ? "never"
                                      : settings.is_legacy() ? "always"
                                                             : "first");
  parts.decoder = decoder_of_marked_spaces(adds_space);
  parts.fuses_unknown = parts.falls_back_to_bytes = true;
  return parts;
}

ClassParts code_llama_parts(const ClassSettings& settings) {
  constexpr std::array<std::pair<const char*, const char*>, 5> filling{
      {{"prefix_token", "\u2581<PRE>"},
       {"middle_token", "\u2581<MID>"},
       {"suffix_token", "\u2581<SUF>"},
       {"eot_token", "\u2581<EOT>"},
       {"fill_token", "<FILL_ME>"}}};
  ClassParts parts = llama_parts(settings);
  for (const auto& [name, text] : filling) {
    parts.named.emplace_back(name, text);
    parts.extra.emplace_back(text);
  }
  parts.pre_tokenizer = marked_spaces(settings.adds_prefix_space(true) ? "first" : "never");
  parts.decoder = decoder_of_marked_spaces(true);
  parts.names_unknown = true;
  parts.around = ClassParts::PostProcessorRule::beginning;
  return parts;
}

ClassParts gemma_parts(const ClassSettings&) {
  ClassParts parts;
  parts.named = {{"unk_token", "<unk>"},
                 {"bos_token", "<bos>"},
                 {"eos_token", "<eos>"},
                 {"pad_token", "<pad>"},
                 {"mask_token", "<mask>"}};
  parts.normalizer = replace_step(" ", kMarkedSpace);
  parts.pre_tokenizer = {{"type", "Split"},
                         {"pattern", {{"String", " "}}},
                         {"behavior", "MergedWithPrevious"},
                         {"invert", false}};
  parts.decoder = decoder_of_marked_spaces(false);
  parts.fuses_unknown = parts.falls_back_to_bytes = parts.names_unknown = true;
  return parts;
}

struct KnownClass {
  std::string_view name;
  ClassParts (*make)(const ClassSettings&);
};

constexpr std::array<KnownClass, 10> known_classes{{{"GPT2Tokenizer", gpt2_parts},
                                                    {"CodeGenTokenizer", gpt2_parts},
                                                    {"GPTNeoXTokenizer", gpt_neox_parts},
                                                    {"RobertaTokenizer", roberta_parts},
                                                    {"CohereTokenizer", cohere_parts},
                                                    {"Qwen2Tokenizer", qwen2_parts},
                                                    {"Qwen3_5Tokenizer", qwen35_parts},
                                                    {"LlamaTokenizer", llama_parts},
                                                    {"CodeLlamaTokenizer", code_llama_parts},
                                                    {"GemmaTokenizer", gemma_parts}}};

}  // namespace

std::optional<ClassParts> parts_of_class(std::string_view name, const PartSettings& settings,
                                         const TokenReader& reader) {
  for (const KnownClass& known : known_classes)
    if (known.name == name) return known.make(ClassSettings(settings, reader));
  return std::nullopt;
}

}  // namespace accrue::data
