#include <algorithm>

#include "accrue/core/error.h"
#include "train/config/gradient_folding.h"
#include "train/config/key_builders.h"
#include "train/config/translations/carries.h"
#include "train/config/translations/other_words.h"

namespace accrue::train {
namespace {

/// States where gradients go also where optim.kind leaves no choice.
Key decided_by_optimizer(Key gradients) {
  gradients.get = [](const Config& config) {
    const GradientPlace place =
        folds_gradients(config) ? GradientPlace::optimizer : GradientPlace::buffer;
    return std::optional(value_of(std::string(gradient_place_words.of(place))));
  };
  return gradients;
}

Key read_with_validation(Key key) {
  return read_where(
      "validation data (data.val or data.val_fraction)", "", "data.val",
      [](const Config& c) { return !c.data.val.empty() || c.data.val_fraction > 0; },
      std::move(key));
}

/// A key of the model's shape, which a folder fixes.
Key shape(Key key) {
  return read_where(
      "model.from = \"\"", "a folder brings the model's shape", "model.from",
      [](const Config& c) { return !c.model.has_shape_of_folder(); }, std::move(key));
}

/// A language model may take fewer positions than its folder has.
Key context_key(std::string name) {
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
        return c.model.kind != ModelKind::torchscript || c.data.format != data::Format::images;
      },
      std::move(key));
}

/// A key of one data.format or another; with "auto" only the files tell.
Key read_with_format(std::vector<std::string> formats, Key key) {
  formats.emplace_back("auto");
  key = read_with("data.format", formats, std::move(key));
  return read_with("model.kind", {"gpt2", "llama", "torchscript"}, std::move(key));
}

Key read_with_images(Key key) {
  key = read_with("data.format", {"images", "auto"}, std::move(key));
  return read_with("model.kind", {"vit", "resnet", "torchscript"}, std::move(key));
}

/// A key of steps that all ranks take together.
Key read_without_local_steps(Key key) {
  return read_where(
      "dist.local_steps = 1 and no dist.outer", "ranks that step alone sum no gradients",
      "dist.local_steps", [](const Config& c) { return !c.dist.takes_outer_steps(); },
      std::move(key));
}

Key read_without_stages(Key key) {
  return read_where(
      "dist.stages = 1", "all stages of a pipeline run the same micro-batches", "dist.stages",
      [](const Config& c) { return c.dist.stages == 1; }, std::move(key));
}

std::vector<Key> run_keys() {
  return {
      resumable(string_key(
          "run.out", "a folder", [](auto& c) -> auto& { return c.run.out; })),
      resumable(integer_key(
          "run.steps", {1, most::steps}, [](auto& c) -> auto& { return c.run.steps; })),
      resumable(integer_key(
          "run.tokens", {1, most::run_tokens}, [](auto& c) -> auto& { return c.run.tokens; })),
      resumable(number_key(
          "run.epochs", {.least = 0, .most = most::epochs, .least_excluded = true},
          [](auto& c) -> auto& { return c.run.epochs; })),
      integer_key(
          "run.seed", {0}, [](auto& c) -> auto& { return c.run.seed; }),
      choice_or_auto_key(
          "run.device", device_words, {{"cuda"}}, [](auto& c) -> auto& { return c.run.device; }),
      resumable(integer_key(
          "run.threads", {0, 4096}, [](auto& c) -> auto& { return c.run.threads; })),
      resumable(duration_key(
          "run.checkpoint_every", {}, [](auto& c) -> auto& { return c.run.checkpoint_every; })),
      resumable(integer_key(
          "run.keep", {1, most::count}, [](auto& c) -> auto& { return c.run.keep; })),
      read_with_validation(resumable(boolean_key(
          "run.keep_best", [](auto& c) -> auto& { return c.run.keep_best; }))),
      resumable(duration_key(
          "run.eval_every", {}, [](auto& c) -> auto& { return c.run.eval_every; })),
      read_with_validation(resumable(integer_or_word_key(
          "run.eval_batches", {1, most::count}, "all",
          [](auto& c) -> auto& { return c.run.eval_batches; }))),
  };
}

std::vector<Key> model_keys() {
  return {
      model_kind_key("model.kind"),
      read_with(
          "model.kind", {"gpt2", "llama", "vit", "resnet"},
          shape(integer_key(
              "model.layers", {1, most::layers}, [](auto& c) -> auto& { return c.model.layers; }))),
      read_with(
          "model.kind", {"gpt2", "llama", "vit"},
          shape(integer_key(
              "model.heads", {1, most::count}, [](auto& c) -> auto& { return c.model.heads; }))),
      read_with("model.kind", {"llama"},
                shape(integer_key(
                    "model.kv_heads", {1, most::count},
                    [](auto& c) -> auto& { return c.model.kv_heads; }))),
      read_with(
          "model.kind", {"gpt2", "llama", "vit", "resnet"},
          shape(integer_key(
              "model.width", {1, most::count}, [](auto& c) -> auto& { return c.model.width; }))),
      read_with("model.kind", {"llama"},
                shape(integer_key(
                    "model.ffn_width", {1, most::count},
                    [](auto& c) -> auto& { return c.model.ffn_width; }))),
      read_with("model.kind", {"gpt2", "llama", "vit", "torchscript"},
                read_with_a_length(context_key("model.context"))),
      shape(integer_or_word_key(
          "model.vocab", {1, most::vocab}, "auto", [](auto& c) -> auto& { return c.model.vocab; })),
      read_with("model.kind", {"gpt2", "llama", "vit"},
                number_key(
                    "model.dropout", {.least = 0, .most = 1, .most_excluded = true},
                    [](auto& c) -> auto& { return c.model.dropout; })),
      string_key(
          "model.from", "a Hugging Face folder, a run folder, or a file",
          [](auto& c) -> auto& { return c.model.from; }),
      read_with("model.kind", {"resnet", "torchscript"},
                choice_key(
                    "model.batchnorm", models::batch_norm_policy_words, {},
                    [](auto& c) -> auto& { return c.model.batchnorm; })),
  };
}

std::vector<Key> data_keys() {
  return {
      strings_key(
          "data.train", "an array of file patterns", [](auto& c) -> auto& { return c.data.train; }),
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
      read_with_format({"text", "jsonl", "chat"}, resumable(tokenizer_key("data.tokenizer"))),
      choice_key(
          "data.order", batch::order_words, {}, [](auto& c) -> auto& { return c.data.order; }),
      read_with_format({"jsonl", "chat"},
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

std::vector<Key> precision_keys() {
  return {
      choice_key(
          "precision.compute", models::compute_words, half_precisions(),
          [](auto& c) -> auto& { return c.precision.compute; }, carry::precision),
      later_key("precision.loss_scale", {}),
      choice_key(
          "precision.accumulate", accum::accumulation_words, {},
          [](auto& c) -> auto& { return c.precision.accumulate; }),
  };
}

std::vector<Key> memory_keys() {
  return {
      resumable(budget_key("memory.budget")),
      resumable(string_key(
          "memory.budget_file", "a file's path",
          [](auto& c) -> auto& { return c.memory.budget_file; })),
      resumable(choice_or_auto_key(
          "memory.recompute", recompute_words, {},
          [](auto& c) -> auto& { return c.memory.recompute; })),
      decided_by_optimizer(choice_key(
          "memory.gradients", gradient_place_words, {},
          [](auto& c) -> auto& { return c.memory.gradients; })),
  };
}

std::vector<Key> loss_keys() {
  return {
      read_with("model.kind", {"gpt2", "llama"},
                choice_key(
                    "loss.cross_entropy", cross_entropy_words, {},
                    [](auto& c) -> auto& { return c.loss.cross_entropy; })),
      number_key(
          "loss.label_smoothing", {.least = 0, .most = 1, .most_excluded = true},
          [](auto& c) -> auto& { return c.loss.label_smoothing; }),
      number_key(
          "loss.z_loss", {.least = 0}, [](auto& c) -> auto& { return c.loss.z_loss; }),
  };
}

std::vector<Key> optim_keys() {
  return {
      choice_key(
          "optim.kind", optimizer_kind_words, other_optimizers(),
          [](auto& c) -> auto& { return c.optim.kind; }, carry::optimizer),
      number_key(
          "optim.lr", {.least = 0, .least_excluded = true},
          [](auto& c) -> auto& { return c.optim.lr; }),
      read_with("optim.kind", {"adamw", "adam", "adama"}, betas_key("optim.betas")),
      read_with("optim.kind", {"adamw", "adam", "rmsprop", "adama"},
                number_key(
                    "optim.eps", {.least = 0}, [](auto& c) -> auto& { return c.optim.eps; })),
      number_key(
          "optim.weight_decay", {.least = 0},
          [](auto& c) -> auto& { return c.optim.weight_decay; }),
      choice_key(
          "optim.decay", decay_words, {}, [](auto& c) -> auto& { return c.optim.decay; }),
      read_with("optim.kind", {"sgd", "rmsprop"},
                number_key(
                    "optim.momentum", {.least = 0, .most = 1, .most_excluded = true},
                    [](auto& c) -> auto& { return c.optim.momentum; })),
      number_key(
          "optim.clip", {.least = 0}, [](auto& c) -> auto& { return c.optim.clip; }),
      choice_key(
          "optim.state", optim::state_precision_words, {},
          [](auto& c) -> auto& { return c.optim.state; }),
      choice_key(
          "optim.schedule.kind", optim::schedule_kind_words, {},
          [](auto& c) -> auto& { return c.optim.schedule.kind; }, carry::schedule),
      duration_key(
          "optim.schedule.warmup", {.zero_allowed = true, .time_allowed = false},
          [](auto& c) -> auto& { return c.optim.schedule.warmup; }),
      read_with("optim.schedule.kind", {"cosine", "linear"},
                number_key(
                    "optim.schedule.min_lr", {.least = 0},
                    [](auto& c) -> auto& { return c.optim.schedule.min_lr; })),
      choice_key(
          "optim.scale_lr", optim::scale_rule_words, {},
          [](auto& c) -> auto& { return c.optim.scale_lr; }),
      read_with("optim.scale_lr", {"linear", "sqrt"},
                integer_key(
                    "optim.base_batch", {1, most::tokens},
                    [](auto& c) -> auto& { return c.optim.base_batch; })),
  };
}

std::vector<Key> dist_keys() {
  return {
      resumable(choice_or_auto_key(
          "dist.backend", backend_words,
          {{"nccl", "not in this version: it trains on the CPU, where Gloo is the backend"}},
          [](auto& c) -> auto& { return c.dist.backend; })),
      read_without_local_steps(read_without_stages(resumable(choice_key(
          "dist.reduce", reduce_words, {}, [](auto& c) -> auto& { return c.dist.reduce; })))),
      read_without_stages(resumable(choice_key(
          "dist.shares", shares_words, {}, [](auto& c) -> auto& { return c.dist.shares; }))),
      resumable(choice_key(
          "dist.shard", shard_words, {}, [](auto& c) -> auto& { return c.dist.shard; })),
      choice_key(
          "dist.compress", distributed::compression_words, {},
          [](auto& c) -> auto& { return c.dist.compress; }),
      integer_key(
          "dist.local_steps", {1, most::count},
          [](auto& c) -> auto& { return c.dist.local_steps; }),
      number_key(
          "dist.outer.lr", {.least = 0, .least_excluded = true},
          [](auto& c) -> auto& { return c.dist.outer_lr; }),
      number_key(
          "dist.outer.momentum", {.least = 0, .most = 1, .most_excluded = true},
          [](auto& c) -> auto& { return c.dist.outer_momentum; }),
      resumable(integer_key(
          "dist.stages", {1, most::count}, [](auto& c) -> auto& { return c.dist.stages; })),
      resumable(duration_key(
          "dist.timeout", {}, [](auto& c) -> auto& { return c.dist.timeout; })),
  };
}

std::vector<Key> observe_keys() {
  return {
      resumable(boolean_key(
          "observe.jsonl", [](auto& c) -> auto& { return c.observe.jsonl; })),
      resumable(boolean_key(
          "observe.tensorboard", [](auto& c) -> auto& { return c.observe.tensorboard; })),
      read_where(
          "observe.tensorboard = true", "histograms go to TensorBoard's files",
          "observe.tensorboard", [](const Config& c) { return c.observe.tensorboard; },
          resumable(duration_or_word_key(
              "observe.histograms", {}, "none",
              [](auto& c) -> auto& { return c.observe.histograms; }))),
      resumable(choice_or_auto_key(
          "observe.progress", observe::progress_style_words, {},
          [](auto& c) -> auto& { return c.observe.progress; })),
      resumable(later_key("observe.prometheus", {{""}})),
      resumable(later_key("observe.mlflow", {{""}})),
  };
}

/// Keys of sections of which this version has nothing but the defaults.
std::vector<Key> later_sections() {
  return {
      later_key("adapt.batch", {{"fixed"}}),
      later_key("adapt.min", {}),
      later_key("adapt.max", {}),
      later_key("adapt.lr_rule", {{"none"}}),
  };
}

std::vector<Key> all_keys() {
  std::vector<Key> table;
  for (auto section :
       {run_keys(), model_keys(), data_keys(), batch_keys(), precision_keys(), memory_keys(),
        loss_keys(), optim_keys(), dist_keys(), observe_keys(), later_sections()})
    table.insert(table.end(), section.begin(), section.end());
  return table;
}

}  // namespace

const Reader* missing_reader(const Key& key, const Config& config) {
  const auto missing = std::find_if(key.read_by.begin(), key.read_by.end(),
                                    [&](const Reader& reader) { return !reader.holds(config); });
  return missing == key.read_by.end() ? nullptr : &*missing;
}

bool takes(const Key& key, const Value& value) {
  Config scratch;
  try {
    key.set({value, std::nullopt, key.name}, scratch);
    return true;
  } catch (const Error&) {
    return false;
  }
}

const std::vector<Key>& keys() {
  static const std::vector<Key> table = all_keys();
  return table;
}

const Key* find_key(const std::string& name) {
  const auto at =
      std::find_if(keys().begin(), keys().end(), [&](const Key& key) { return key.name == name; });
  return at == keys().end() ? nullptr : &*at;
}

}  // namespace accrue::train
