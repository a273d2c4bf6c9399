#include "train/config/translations/other_words.h"

#include <string>
#include <string_view>

#include "accrue/train/choices.h"
#include "train/config/names.h"

namespace accrue::train {
namespace {

/// "gpt" of "gpt3", "gpt-3" and "gpt2".
std::string_view before_digits(std::string_view word) {
  word = word.substr(0, word.find_first_of("0123456789"));
  while (word.ends_with('_')) word.remove_suffix(1);
  return word;
}

}  // namespace

std::vector<Refused> half_precisions() {
  std::vector<Refused> names;
  for (const char* other : {"half", "float16", "16", "fp16-mixed", "16-mixed"})
    names.push_back({other, "called \"fp16\" here, which GPUs alone are fast in",
                     "\"bf16\", or \"fp16\" on a GPU", false});
  return names;
}

std::vector<Refused> other_devices() {
  std::vector<Refused> names;
  for (const char* other : {"gpu", "cuda:0", "nvidia", "rocm"})
    names.push_back({other, "called \"cuda\" here", "\"cuda\"", false});
  return names;
}

std::vector<Refused> other_optimizers() {
  std::vector<Refused> names;
  for (const char* other : {"nadam", "radam", "adamax", "adamp", "adan", "nadamw", "sgdw", "sgdp"})
    names.push_back(
        {other, "another optimizer, not in this version", "one of these values", false});
  return names;
}

std::optional<Value> kind_without_version(const Value& stated) {
  const auto* const text = stated.as<std::string>();
  if (text == nullptr) return std::nullopt;
  const std::string name = normalised(*text);
  for (const std::string_view kind : model_kind_words.words())
    if (before_digits(kind) == before_digits(name)) return Value{std::string(kind)};
  return std::nullopt;
}

}  // namespace accrue::train
