#include "train/config/key_builders.h"
#include "train/config/sections/sections.h"

namespace accrue::train {
namespace {

/// A key of an adapter's properties, which a folder fixes.
Key of_new_adapters(Key key) {
  return read_where(
      "lora.from = \"\"", "the folder brings its rank, alpha, kind and targets", "lora.from",
      [](const Config& c) { return c.model.lora.from.empty(); }, std::move(key));
}

/// A key that is read only if there are adapters.
Key of_adapters(Key key) {
  return read_where(
      "lora.rank above 0 or lora.from", "", "lora.rank",
      [](const Config& c) { return c.model.lora.is_on(); }, std::move(key));
}

Key of_language_models(Key key) {
  return read_with("model.kind", {"gpt2", "llama"}, std::move(key));
}

/// Returns the default of alpha if it is not stated.
Key alpha_key(KeyName name) {
  Key key = number_key(
      std::move(name), {.least = 0, .least_excluded = true},
      [](auto& c) -> auto& { return c.model.lora.adapters.alpha; });
  key.get = [](const Config& c) {
    return std::optional(value_of(c.model.lora.adapters.alpha_or_usual()));
  };
  return key;
}

}  // namespace

std::vector<Key> lora_keys() {
  constexpr std::int64_t most_rank = 1 << 16;
  return {
      of_language_models(of_new_adapters(integer_key(
          {"lora.rank", "Rank of LoRA adapters; 0 trains the weights themselves."}, {0, most_rank},
          [](auto& c) -> auto& { return c.model.lora.adapters.rank; }))),
      of_language_models(of_new_adapters(of_adapters(alpha_key(
          {"lora.alpha", "Scale of adapters: their product is multiplied by alpha / rank."})))),
      of_language_models(of_adapters(number_key(
          {"lora.dropout", "Probability of dropout at the input of adapters."},
          {.least = 0, .most = 1, .most_excluded = true},
          [](auto& c) -> auto& { return c.model.lora.adapters.dropout; }))),
      of_language_models(of_new_adapters(of_adapters(strings_key(
          {"lora.targets", "Linear layers that get an adapter; none stated: all in the blocks."},
          "an array of patterns of linear layers, such as [\"q_proj\", \"mlp\"]",
          [](auto& c) -> auto& { return c.model.lora.adapters.targets; })))),
      of_language_models(of_new_adapters(of_adapters(choice_key(
          {"lora.kind", "LoRA, or DoRA, which also trains the norms of rows."},
          models::adapter_kind_words, {},
          [](auto& c) -> auto& { return c.model.lora.adapters.kind; })))),
      of_language_models(of_new_adapters(of_adapters(boolean_key(
          {"lora.rs", "Rank-stabilised LoRA: scale by alpha / sqrt(rank)."},
          [](auto& c) -> auto& { return c.model.lora.adapters.rank_stabilised; })))),
      of_language_models(string_key(
          {"lora.from", "Folder with adapters in PEFT's layout to continue with."},
          "a folder with adapter_config.json", [](auto& c) -> auto& { return c.model.lora.from; })),
  };
}

}  // namespace accrue::train
