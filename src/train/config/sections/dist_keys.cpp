#include "train/config/key_builders.h"
#include "train/config/sections/sections.h"

namespace accrue::train {
namespace {

/// A key for steps that all ranks take together.
Key read_without_local_steps(Key key) {
  return read_where(
      "dist.local_steps = 1 and no dist.outer", "ranks that step alone sum no gradients",
      "dist.local_steps", [](const Config& c) { return !c.dist.takes_outer_steps(); },
      std::move(key));
}

Key read_with_local_steps(Key key) {
  return read_where(
      "dist.local_steps > 1", "a round of one step has room for one part", "dist.local_steps",
      [](const Config& c) { return c.dist.local_steps > 1; }, std::move(key));
}

Key read_without_stages(Key key) {
  return read_where(
      "dist.stages = 1", "all stages of a pipeline run the same micro-batches", "dist.stages",
      [](const Config& c) { return c.dist.stages == 1; }, std::move(key));
}

Key read_without_compression(Key key) {
  return read_where(
      "dist.compress = \"none\"",
      "what compression leaves out is lost with its rank, so that all are needed", "dist.compress",
      [](const Config& c) { return c.dist.compress == distributed::Compression::none; },
      std::move(key));
}

}  // namespace

std::vector<Key> dist_keys() {
  return {
      resumable(choice_or_auto_key(
          {"dist.backend", "Library that exchanges tensors between ranks."}, backend_words, {},
          [](auto& c) -> auto& { return c.dist.backend; })),
      read_without_local_steps(read_without_stages(resumable(choice_key(
          {"dist.reduce",
           "Sum gradients over the ranks during the last backward pass, or after it."},
          reduce_words, {}, [](auto& c) -> auto& { return c.dist.reduce; })))),
      read_without_stages(resumable(choice_key(
          {"dist.shares",
           "How micro-batches are shared between ranks: by measured speed, or equally."},
          shares_words, {}, [](auto& c) -> auto& { return c.dist.shares; }))),
      resumable(choice_key(
          {"dist.shard",
           "The state of which each rank keeps only its part (ZeRO): the optimizer's, or all."},
          shard_words, {}, [](auto& c) -> auto& { return c.dist.shard; })),
      resumable(choice_key(
          {"dist.shard_replica",
           "The place of a copy of a rank's part, so that a lost rank loses nothing."},
          shard_replica_words, {}, [](auto& c) -> auto& { return c.dist.shard_replica; })),
      choice_key(
          {"dist.compress", "Compression of gradients between ranks."},
          distributed::compression_words, {}, [](auto& c) -> auto& { return c.dist.compress; }),
      integer_key(
          {"dist.local_steps",
           "Optimizer steps that a rank takes alone between two exchanges (DiLoCo)."},
          {1, most::count}, [](auto& c) -> auto& { return c.dist.local_steps; }),
      number_key(
          {"dist.outer.lr", "Learning rate of the outer step."},
          {.least = 0, .least_excluded = true}, [](auto& c) -> auto& { return c.dist.outer_lr; }),
      number_key(
          {"dist.outer.momentum", "Nesterov momentum of the outer step."},
          {.least = 0, .most = 1, .most_excluded = true},
          [](auto& c) -> auto& { return c.dist.outer_momentum; }),
      read_with_local_steps(integer_key(
          {"dist.outer.parts", "Parts of the parameters that are exchanged one after the other."},
          {1, most::count}, [](auto& c) -> auto& { return c.dist.outer_parts; })),
      read_with_local_steps(integer_key(
          {"dist.outer.delay", "Local steps that an exchange may take before it is waited for."},
          {0, most::count}, [](auto& c) -> auto& { return c.dist.outer_delay; })),
      resumable(integer_key(
          {"dist.stages", "Stages of a pipeline."}, {1, most::count},
          [](auto& c) -> auto& { return c.dist.stages; })),
      read_without_compression(read_without_local_steps(read_without_stages(resumable(integer_key(
          {"dist.min_ranks", "Fewest ranks that continue when others are lost."}, {1, most::count},
          [](auto& c) -> auto& { return c.dist.min_ranks; }))))),
      resumable(duration_key(
          {"dist.timeout", "How long a rank waits for the others."}, {.only_time = true},
          [](auto& c) -> auto& { return c.dist.timeout; })),
  };
}

std::vector<Key> observe_keys() {
  return {
      resumable(boolean_key(
          {"observe.jsonl", "Write metrics.jsonl."},
          [](auto& c) -> auto& { return c.observe.jsonl; })),
      resumable(boolean_key(
          {"observe.tensorboard", "Write event files for TensorBoard."},
          [](auto& c) -> auto& { return c.observe.tensorboard; })),
      read_where(
          "observe.tensorboard = true", "histograms go to TensorBoard's files",
          "observe.tensorboard", [](const Config& c) { return c.observe.tensorboard; },
          resumable(duration_or_word_key(
              {"observe.histograms", "How often histograms of gradients and weights are written."},
              {}, "none", [](auto& c) -> auto& { return c.observe.histograms; }))),
      resumable(choice_or_auto_key(
          {"observe.progress", "How progress is shown on the terminal."},
          observe::progress_style_words, {}, [](auto& c) -> auto& { return c.observe.progress; })),
      resumable(choice_key(
          {"observe.noise", "The detail in which the gradient noise scale is measured."},
          noise_detail_words, {}, [](auto& c) -> auto& { return c.observe.noise; })),
      resumable(later_key({"observe.prometheus", "Not in this version."}, {{""}})),
      resumable(later_key({"observe.mlflow", "Not in this version."}, {{""}})),
  };
}

namespace {

Key of_adapted_batches(Key key) {
  return read_with("adapt.batch", {"noise-scale", "norm-test", "seesaw", "critical"},
                   std::move(key));
}

}  // namespace

std::vector<Key> adapt_keys() {
  return {
      choice_key(
          {"adapt.batch", "The rule by which the batch size changes."}, adapt::batch_rule_words, {},
          [](auto& c) -> auto& { return c.adapt.batch; }),
      of_adapted_batches(integer_key(
          {"adapt.min", "Smallest batch size that is chosen."}, {1, most::tokens},
          [](auto& c) -> auto& { return c.adapt.min; })),
      of_adapted_batches(integer_key(
          {"adapt.max", "Largest batch size that is chosen."}, {1, most::tokens},
          [](auto& c) -> auto& { return c.adapt.max; })),
      read_with("adapt.batch", {"noise-scale", "norm-test", "critical"},
                choice_key(
                    {"adapt.geometry", "Norm in which the gradient's noise is measured."},
                    noise_geometry_words, {}, [](auto& c) -> auto& { return c.adapt.geometry; })),
      read_where(
          "batch.schedule, batch.ramp or adapt.batch, by which the batch changes",
          "seesaw has a rule of its own", "adapt.batch",
          [](const Config& c) {
            return c.adapt.batch != adapt::BatchRule::seesaw &&
                   (c.adapt.is_on() || c.batch.changes_as_stated());
          },
          choice_key(
              {"adapt.lr_rule", "How the learning rate follows a batch size that changes."},
              adapt::rate_rule_words, {}, [](auto& c) -> auto& { return c.adapt.lr_rule; })),
  };
}

}  // namespace accrue::train
