#include "train/config/key_builders.h"
#include "train/config/sections/sections.h"

namespace accrue::train {
namespace {

/// A key of one data.format or another; with "auto" only the files determine the format.
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

/// A key of the augmentation of training images.
Key augment_number_key(KeyName name, double most, double data::Augment::*member) {
  return read_with_images(number_key(
      std::move(name),
      {.least = 0, .most = most}, [member](auto& c) -> auto& { return c.data.augment.*member; }));
}

Key read_with_crop(Key key) {
  return read_where(
      "data.augment.crop", "", "data.augment.crop",
      [](const Config& c) { return c.data.augment.crop.has_value(); },
      read_with_images(std::move(key)));
}

/// A factor may differ from 1 by this much.
constexpr double most_jitter = 10;

}  // namespace

std::vector<Key> data_keys() {
  return {
      sources_key({"data.train",
                   "Training files; {path, weight} for each source mixes them; \"-\" is the "
                   "standard input."}),
      strings_key(
          {"data.val", "Validation files."}, "an array of file patterns",
          [](auto& c) -> auto& { return c.data.val; }),
      resumable(strings_key(
          {"data.exclude", "Files of data.train and data.val that are left out."},
          "an array of file patterns", [](auto& c) -> auto& { return c.data.exclude; })),
      number_key(
          {"data.val_fraction",
           "Share of the training data, at its end, that is used for validation instead of "
           "data.val."},
          {.least = 0, .most = 1, .most_excluded = true},
          [](auto& c) -> auto& { return c.data.val_fraction; }),
      choice_or_auto_key(
          {"data.format", "Format of the files; auto looks at their names and first bytes."},
          data::format_words, {}, [](auto& c) -> auto& { return c.data.format; }),
      read_with_format(
          {"text", "jsonl", "chat", "parquet"},
          resumable(tokenizer_key(
              {"data.tokenizer", "Tokenizer of text; auto takes that of model.from, or bytes."}))),
      choice_key(
          {"data.order", "Order of samples: a new permutation for each epoch, or as stored."},
          batch::order_words, {}, [](auto& c) -> auto& { return c.data.order; }),
      read_with_format(
          {"jsonl", "chat", "parquet"},
          boolean_key(
              {"data.packing", "Put several samples into one row; each sees only itself."},
              [](auto& c) -> auto& { return c.data.packing; })),
      read_with_columns(strings_key(
          {"data.columns", "Fields of lines or tables that become tensors by name."},
          "an array of the lines' fields, such as [\"input_ids\", \"labels\"]",
          [](auto& c) -> auto& { return c.data.columns; })),
      read_with_masks(strings_key(
          {"data.masks", "PNG masks, one for each image: the class of each pixel."},
          "an array of file patterns", [](auto& c) -> auto& { return c.data.masks; })),
      read_with_images(resumable(image_size_key(
          {"data.image", "Size that images are scaled to: a side, [height, width], or auto."}))),
      read_with_images(
          crop_key({"data.augment.crop", "Share of an image's area that a random crop takes."})),
      read_with_crop(ratio_key({"data.augment.ratio", "Width by height of random crops."})),
      read_with_images(integer_key(
          {"data.augment.pad", "Pixels of padding before a random crop of the full size."},
          {0, most::image_side}, [](auto& c) -> auto& { return c.data.augment.pad; })),
      augment_number_key({"data.augment.flip", "Probability that an image is mirrored."}, 1,
                         &data::Augment::flip),
      augment_number_key({"data.augment.brightness", "Random change of brightness."}, most_jitter,
                         &data::Augment::brightness),
      augment_number_key({"data.augment.contrast", "Random change of contrast."}, most_jitter,
                         &data::Augment::contrast),
      augment_number_key({"data.augment.saturation", "Random change of saturation."}, most_jitter,
                         &data::Augment::saturation),
      augment_number_key({"data.augment.hue", "Random change of hue."}, 0.5, &data::Augment::hue),
      augment_number_key({"data.augment.erase", "Probability that a random rectangle is erased."},
                         1, &data::Augment::erase),
  };
}

namespace {

/// A key of the growth of a batch, which only happens if ramp.from is stated.
Key of_ramps(Key key) {
  return read_where(
      "batch.ramp.from, what the batch grows from", "", "batch.ramp.from",
      [](const Config& c) { return c.batch.ramp_from.has_value(); }, std::move(key));
}

}  // namespace

std::vector<Key> batch_keys() {
  return {
      integer_key(
          {"batch.tokens",
           "Effective batch size in tokens, over all ranks; state one of tokens, samples and "
           "micro_batches."},
          {1, most::tokens}, [](auto& c) -> auto& { return c.batch.tokens; }),
      integer_key(
          {"batch.samples", "Effective batch size in samples, over all ranks."}, {1, most::samples},
          [](auto& c) -> auto& { return c.batch.samples; }),
      integer_key(
          {"batch.micro_batches",
           "Gradient accumulation steps; the batch is this times batch.micro times the ranks."},
          {1, most::samples}, [](auto& c) -> auto& { return c.batch.micro_batches; }),
      integer_or_word_key(
          {"batch.micro",
           "Samples of one micro-batch; auto takes the fastest that fits into memory."},
          {1, most::samples}, "auto", [](auto& c) -> auto& { return c.batch.micro; }),
      batch_schedule_key({"batch.schedule", "Other batch sizes from given places of the run on."}),
      integer_key(
          {"batch.ramp.from",
           "Effective batch size that the run begins with, in the batch's unit."},
          {1, most::tokens}, [](auto& c) -> auto& { return c.batch.ramp_from; }),
      of_ramps(duration_key(
          {"batch.ramp.over", "Part of the run over which the batch grows."},
          {.time_allowed = false}, [](auto& c) -> auto& { return c.batch.ramp_over; })),
      of_ramps(choice_key(
          {"batch.ramp.by", "How the batch grows."}, ramp_shape_words, {},
          [](auto& c) -> auto& { return c.batch.ramp_by; })),
      choice_key(
          {"batch.last", "How an epoch's short last batch is treated."}, batch::last_window_words,
          {}, [](auto& c) -> auto& { return c.batch.last; }),
      resumable(number_key(
          {"batch.max_quarantined",
           "Share of a step's micro-batches that may be left out because they are not finite."},
          {.least = 0, .most = 1}, [](auto& c) -> auto& { return c.batch.max_quarantined; })),
  };
}

}  // namespace accrue::train
