#include "train/config/key_builders.h"
#include "train/config/sections/sections.h"

namespace accrue::train {
namespace {

/// A key of one data.format or another; with "auto" only the files tell.
Key read_with_format(std::vector<std::string> formats, Key key) {
  formats.emplace_back("auto");
  key = read_with("data.format", formats, std::move(key));
  return read_with("model.kind", {"gpt2", "llama", "torchscript", "custom"}, std::move(key));
}

Key read_with_images(Key key) {
  key = read_with("data.format", {"images", "auto"}, std::move(key));
  return read_with("model.kind", {"vit", "resnet", "torchscript", "custom"}, std::move(key));
}

}  // namespace

std::vector<Key> data_keys() {
  return {
      sources_key("data.train"),
      strings_key(
          "data.val", "an array of file patterns", [](auto& c) -> auto& { return c.data.val; }),
      resumable(strings_key(
          "data.exclude", "an array of file patterns",
          [](auto& c) -> auto& { return c.data.exclude; })),
      number_key(
          "data.val_fraction", {.least = 0, .most = 1, .most_excluded = true},
          [](auto& c) -> auto& { return c.data.val_fraction; }),
      choice_or_auto_key(
          "data.format", data::format_words, {}, [](auto& c) -> auto& { return c.data.format; }),
      read_with_format({"text", "jsonl", "chat", "parquet"},
                       resumable(tokenizer_key("data.tokenizer"))),
      choice_key(
          "data.order", batch::order_words, {}, [](auto& c) -> auto& { return c.data.order; }),
      read_with_format({"jsonl", "chat", "parquet"},
                       boolean_key(
                           "data.packing", [](auto& c) -> auto& { return c.data.packing; })),
      read_with_images(resumable(image_size_key("data.image"))),
  };
}

std::vector<Key> batch_keys() {
  return {
      integer_key(
          "batch.tokens", {1, most::tokens}, [](auto& c) -> auto& { return c.batch.tokens; }),
      integer_key(
          "batch.samples", {1, most::samples}, [](auto& c) -> auto& { return c.batch.samples; }),
      integer_key(
          "batch.micro_batches", {1, most::samples},
          [](auto& c) -> auto& { return c.batch.micro_batches; }),
      integer_or_word_key(
          "batch.micro", {1, most::samples}, "auto",
          [](auto& c) -> auto& { return c.batch.micro; }),
      later_key("batch.schedule", {{Value::Array{}}}),
      choice_key(
          "batch.last", batch::last_window_words, {},
          [](auto& c) -> auto& { return c.batch.last; }),
      resumable(number_key(
          "batch.max_quarantined", {.least = 0, .most = 1},
          [](auto& c) -> auto& { return c.batch.max_quarantined; })),
  };
}

}  // namespace accrue::train
