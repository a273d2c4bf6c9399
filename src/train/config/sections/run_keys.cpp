#include "train/config/key_builders.h"
#include "train/config/sections/sections.h"
#include "train/config/translations/other_words.h"

namespace accrue::train {
namespace {

Key read_with_validation(Key key) {
  return read_where(
      "validation data (data.val or data.val_fraction)", "", "data.val",
      [](const Config& c) { return !c.data.val.empty() || c.data.val_fraction > 0; },
      std::move(key));
}

}  // namespace

std::vector<Key> run_keys() {
  return {
      resumable(string_key(
          {"run.out", "Folder of the run: checkpoints, metrics and the config."}, "a folder",
          [](auto& c) -> auto& { return c.run.out; })),
      resumable(integer_key(
          {"run.steps",
           "Length of the run in optimizer steps; state one of steps, tokens and epochs."},
          {1, most::steps}, [](auto& c) -> auto& { return c.run.steps; })),
      resumable(integer_key(
          {"run.tokens", "Length of the run in tokens."}, {1, most::run_tokens},
          [](auto& c) -> auto& { return c.run.tokens; })),
      resumable(number_key(
          {"run.epochs", "Length of the run in passes over the training data."},
          {.least = 0, .most = most::epochs, .least_excluded = true},
          [](auto& c) -> auto& { return c.run.epochs; })),
      integer_key(
          {"run.seed", "Seed of initialisation, order of samples, dropout and hidden tokens."}, {0},
          [](auto& c) -> auto& { return c.run.seed; }),
      choice_or_auto_key(
          {"run.device", "Device to train on; auto takes a GPU if there is one."}, device_words,
          other_devices(), [](auto& c) -> auto& { return c.run.device; }),
      choice_or_auto_key(
          {"run.kernels",
           "Whose kernels compute: accrue's own (native) or libtorch's operators alone (generic)."},
          kernels::kernels_words, {}, [](auto& c) -> auto& { return c.run.kernels; }),
      read_with("model.kind", {"gpt2", "llama"},
                resumable(boolean_key(
                    {"run.graphs",
                     "Record a micro-batch on a GPU and repeat it by one launch (CUDA graphs)."},
                    [](auto& c) -> auto& { return c.run.graphs; }))),
      resumable(integer_key(
          {"run.threads", "CPU threads; 0 takes all that the affinity mask and the cgroup grant."},
          {0, 4096}, [](auto& c) -> auto& { return c.run.threads; })),
      resumable(duration_key(
          {"run.checkpoint_every", "How often a checkpoint is written."}, {},
          [](auto& c) -> auto& { return c.run.checkpoint_every; })),
      resumable(integer_key(
          {"run.keep", "How many of the newest checkpoints are kept."}, {1, most::count},
          [](auto& c) -> auto& { return c.run.keep; })),
      read_with_validation(resumable(boolean_key(
          {"run.keep_best", "Keep the checkpoint with the best validation loss, too."},
          [](auto& c) -> auto& { return c.run.keep_best; }))),
      resumable(string_key(
          {"run.replica", "Second folder, on another disk, that each checkpoint is copied to."},
          "a folder", [](auto& c) -> auto& { return c.run.replica; })),
      resumable(duration_key(
          {"run.eval_every", "How often the validation data are evaluated."}, {},
          [](auto& c) -> auto& { return c.run.eval_every; })),
      read_with_validation(resumable(integer_or_word_key(
          {"run.eval_batches", "Validation batches of one evaluation."}, {1, most::count}, "all",
          [](auto& c) -> auto& { return c.run.eval_batches; }))),
      resumable(limits_key(
          {"run.limits",
           "Readings of the machine (temperature, power, ...) that slow, pause or stop the run."})),
  };
}

}  // namespace accrue::train
