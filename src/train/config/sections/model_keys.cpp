#include "train/config/key_builders.h"
#include "train/config/sections/sections.h"

namespace accrue::train {
namespace {

/// A key of the model's shape, which a folder fixes.
Key shape(Key key) {
  return read_where(
      "model.from = \"\"", "a folder brings the model's shape", "model.from",
      [](const Config& c) { return !c.model.has_shape_of_folder(); }, std::move(key));
}

/// A language model may take fewer positions than its folder has.
Key context_key(KeyName name) {
  Key key = integer_key(
      std::move(name), {1, most::context}, [](auto& c) -> auto& { return c.model.context; });
  key.get = [](const Config& c) -> std::optional<Value> {
    if (!c.model.context && c.model.has_shape_of_folder()) return std::nullopt;
    return value_of(c.model.context_or_default());
  };
  return read_where(
      "model.from = \"\"", "a folder brings the model's shape", "model.from",
      [](const Config& c) {
        return is_language_model(c.model.kind) || !c.model.has_shape_of_folder();
      },
      std::move(key));
}

/// A key of samples of tokens, and of a vit's patches.
Key read_with_a_length(Key key) {
  return read_where(
      "data of text or tokens", "", "data.format",
      [](const Config& c) {
        return !is_foreign(c.model.kind) || c.data.format != data::Format::images;
      },
      std::move(key));
}

}  // namespace

std::vector<Key> model_keys() {
  return {
      model_kind_key({"model.kind", "Kind of model; auto takes what model.from holds, or gpt2."}),
      read_with("model.kind", {"gpt2", "llama", "bert", "vit", "resnet", "custom"},
                shape(integer_key(
                    {"model.layers", "Number of layers."}, {1, most::layers},
                    [](auto& c) -> auto& { return c.model.layers; }))),
      read_with("model.kind", {"gpt2", "llama", "bert", "vit", "custom"},
                shape(integer_key(
                    {"model.heads", "Number of attention heads."}, {1, most::count},
                    [](auto& c) -> auto& { return c.model.heads; }))),
      read_with(
          "model.kind", {"llama"},
          shape(integer_key(
              {"model.kv_heads",
               "Heads of keys and values (grouped-query attention); a divisor of model.heads."},
              {1, most::count}, [](auto& c) -> auto& { return c.model.kv_heads; }))),
      read_with("model.kind", {"gpt2", "llama", "bert", "vit", "resnet", "custom"},
                shape(integer_key(
                    {"model.width", "Width of the hidden state."}, {1, most::count},
                    [](auto& c) -> auto& { return c.model.width; }))),
      read_with("model.kind", {"resnet"},
                shape(choice_or_auto_key(
                    {"model.stem", "How a residual network begins: 3x3 (small images) or 7x7."},
                    models::stem_words, {}, [](auto& c) -> auto& { return c.model.stem; }))),
      read_with("model.kind", {"llama", "bert"},
                shape(integer_key(
                    {"model.ffn_width", "Hidden width of the feed-forward part."}, {1, most::count},
                    [](auto& c) -> auto& { return c.model.ffn_width; }))),
      read_with("model.kind", {"gpt2", "llama", "bert", "vit", "torchscript", "custom"},
                read_with_a_length(context_key(
                    {"model.context",
                     "Length of a sample in tokens, and the positions of a new model."}))),
      shape(integer_or_word_key(
          {"model.vocab",
           "Number of token ids or classes; auto takes it from the tokenizer or the data."},
          {1, most::vocab}, "auto", [](auto& c) -> auto& { return c.model.vocab; })),
      read_with("model.kind", {"gpt2", "llama", "bert", "vit", "custom"},
                number_key(
                    {"model.dropout", "Probability of dropout."},
                    {.least = 0, .most = 1, .most_excluded = true},
                    [](auto& c) -> auto& { return c.model.dropout; })),
      string_key(
          {"model.from", "The model that training starts from."},
          "a Hugging Face folder, a GGUF file, a run folder, or a file",
          [](auto& c) -> auto& { return c.model.from; }),
      strings_key(
          {"model.freeze", "Parameters that are not trained."},
          "an array of patterns of parameters, such as [\"embed_tokens\"]",
          [](auto& c) -> auto& { return c.model.freeze; }),
      read_with(
          "model.kind", {"llama"},
          read_where(
              "lora.rank above 0 or lora.from",
              "a weight in blocks is not trained, only adapters beside it are", "lora.rank",
              [](const Config& c) { return c.model.lora.is_on(); },
              choice_key(
                  {"model.base",
                   "How the frozen weights under adapters are stored: 16, 8 or 4 bits (QLoRA)."},
                  models::base_format_words, {}, [](auto& c) -> auto& { return c.model.base; }))),
      read_with("model.kind", {"resnet", "torchscript", "custom"},
                choice_key(
                    {"model.batchnorm",
                     "The treatment of batch normalisation, which depends on the micro-batch."},
                    models::batch_norm_policy_words, {},
                    [](auto& c) -> auto& { return c.model.batchnorm; })),
      read_with("model.kind", {"torchscript", "custom"},
                choice_key(
                    {"model.accelerate",
                     "Compute operations of a model that is not accrue's by accrue's kernels."},
                    accelerate_words, {}, [](auto& c) -> auto& { return c.model.accelerate; })),
  };
}

}  // namespace accrue::train
