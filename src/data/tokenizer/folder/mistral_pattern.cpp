#include "data/tokenizer/folder/mistral_pattern.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "data/tokenizer/pipeline/part_forms.h"

namespace accrue::data {
namespace {

using CutJson = nlohmann::json;

/// Whether the config was written before version 5.0.0: also if it names no version.
bool is_of_older_version(const CutJson& config) {
  const CutJson stated = config.value("transformers_version", CutJson());
  if (!stated.is_string() || stated.get_ref<const std::string&>().empty()) return true;
  const std::string_view version = stated.get_ref<const std::string&>();
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  constexpr std::string_view first = "5.0.0";
  const bool comes_before_first =
      version.starts_with(first) && version.size() > first.size() &&
      (version.find("dev") != version.npos || version.find("rc") != version.npos);
  return major < 5 || comes_before_first;
}

}  // namespace

bool has_mistral_correction(const nlohmann::ordered_json& settings, const CutJson& config,
                            std::size_t vocabulary_size) {
  constexpr std::size_t smallest = 100'000;
  constexpr std::array<std::string_view, 5> types{"mistral", "mistral3", "voxtral", "ministral",
                                                  "pixtral"};
  const auto wanted = settings.find("fix_mistral_regex");
  if (wanted == settings.end() || *wanted != true) return false;
  if (vocabulary_size <= smallest || !config.is_object() || !is_of_older_version(config))
    return false;
  const CutJson type = config.value("model_type", CutJson());
  return type.is_null() ||
         (type.is_string() &&
          std::ranges::find(types, type.get_ref<const std::string&>()) != types.end());
}

CutJson corrected_for_mistral(const CutJson& pre_tokenizer) {
  if (pre_tokenizer.is_null()) return pre_tokenizer;
  const CutJson split = split_step(kWordsOfTekken);
  const CutJson type = pre_tokenizer.value("type", CutJson());
  CutJson corrected = pre_tokenizer;
  if (type == "Sequence") {
    CutJson& steps = corrected["pretokenizers"];
    if (steps.is_array() && !steps.empty()) steps[0] = split;
    return corrected;
  }
  if (type == "Metaspace") corrected = byte_level_step(false, false);
  return pre_tokenizer_of({split, corrected});
}

}  // namespace accrue::data
