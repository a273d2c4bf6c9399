#include "train/config/key_builders.h"
#include "train/config/sections/sections.h"

namespace accrue::train {
namespace {

/// A key of one data.format or another; with "auto" only the files tell.
Key read_with_format(std::vector<std::string> formats, Key key) {
  formats.emplace_back("auto");
  key = read_with("data.format", formats, std::move(key));
  return read_with("model.kind", {"gpt2", "llama", "bert", "torchscript", "custom"},
                   std::move(key));
}

Key read_with_columns(Key key) {
  key = read_with("data.format", {"jsonl", "parquet", "auto"}, std::move(key));
  return read_with("model.kind", {"torchscript", "custom"}, std::move(key));
}

Key read_with_images(Key key) {
  key = read_with("data.format", {"images", "auto"}, std::move(key));
  return read_with("model.kind", {"vit", "resnet", "torchscript", "custom"}, std::move(key));
}

/// Classifiers have no outputs for pixels.
Key read_with_masks(Key key) {
  key = read_with("data.format", {"images", "auto"}, std::move(key));
  return read_with("model.kind", {"torchscript", "custom"}, std::move(key));
}

/// A key of what becomes of training images.
Key augment_number_key(std::string name, double most, double data::Augment::*member) {
  return read_with_images(number_key(
      "data.augment." + std::move(name),
      {.least = 0, .most = most}, [member](auto& c) -> auto& { return c.data.augment.*member; }));
}

Key read_with_crop(Key key) {
  return read_where(
      "data.augment.crop", "", "data.augment.crop",
      [](const Config& c) { return c.data.augment.crop.has_value(); },
      read_with_images(std::move(key)));
}

/// A factor may be so far from 1.
constexpr double most_jitter = 10;

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
      read_with_columns(strings_key(
          "data.columns", "an array of the lines' fields, such as [\"input_ids\", \"labels\"]",
          [](auto& c) -> auto& { return c.data.columns; })),
      read_with_masks(strings_key(
          "data.masks", "an array of file patterns",
          [](auto& c) -> auto& { return c.data.masks; })),
      read_with_images(resumable(image_size_key("data.image"))),
      read_with_images(crop_key("data.augment.crop")),
      read_with_crop(ratio_key("data.augment.ratio")),
      read_with_images(integer_key(
          "data.augment.pad", {0, most::image_side},
          [](auto& c) -> auto& { return c.data.augment.pad; })),
      augment_number_key("flip", 1, &data::Augment::flip),
      augment_number_key("brightness", most_jitter, &data::Augment::brightness),
      augment_number_key("contrast", most_jitter, &data::Augment::contrast),
      augment_number_key("saturation", most_jitter, &data::Augment::saturation),
      augment_number_key("hue", 0.5, &data::Augment::hue),
      augment_number_key("erase", 1, &data::Augment::erase),
  };
}

namespace {

/// A key of how the batch grows, which it does where ramp.from is stated.
Key of_ramps(Key key) {
  return read_where(
      "batch.ramp.from, what the batch grows from", "", "batch.ramp.from",
      [](const Config& c) { return c.batch.ramp_from.has_value(); }, std::move(key));
}

}  // namespace

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
      batch_schedule_key("batch.schedule"),
      integer_key(
          "batch.ramp.from", {1, most::tokens}, [](auto& c) -> auto& { return c.batch.ramp_from; }),
      of_ramps(duration_key(
          "batch.ramp.over", {.time_allowed = false},
          [](auto& c) -> auto& { return c.batch.ramp_over; })),
      of_ramps(choice_key(
          "batch.ramp.by", ramp_shape_words, {}, [](auto& c) -> auto& { return c.batch.ramp_by; })),
      choice_key(
          "batch.last", batch::last_window_words, {},
          [](auto& c) -> auto& { return c.batch.last; }),
      resumable(number_key(
          "batch.max_quarantined", {.least = 0, .most = 1},
          [](auto& c) -> auto& { return c.batch.max_quarantined; })),
  };
}

}  // namespace accrue::train
