#include "train/config/key_builders.h"
#include "train/config/sections/sections.h"

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
          "run.device", device_words, {}, [](auto& c) -> auto& { return c.run.device; }),
      choice_or_auto_key(
          "run.kernels", kernels::kernels_words, {},
          [](auto& c) -> auto& { return c.run.kernels; }),
      read_with("model.kind", {"gpt2", "llama"},
                resumable(boolean_key(
                    "run.graphs", [](auto& c) -> auto& { return c.run.graphs; }))),
      resumable(integer_key(
          "run.threads", {0, 4096}, [](auto& c) -> auto& { return c.run.threads; })),
      resumable(duration_key(
          "run.checkpoint_every", {}, [](auto& c) -> auto& { return c.run.checkpoint_every; })),
      resumable(integer_key(
          "run.keep", {1, most::count}, [](auto& c) -> auto& { return c.run.keep; })),
      read_with_validation(resumable(boolean_key(
          "run.keep_best", [](auto& c) -> auto& { return c.run.keep_best; }))),
      resumable(string_key(
          "run.replica", "a folder", [](auto& c) -> auto& { return c.run.replica; })),
      resumable(duration_key(
          "run.eval_every", {}, [](auto& c) -> auto& { return c.run.eval_every; })),
      read_with_validation(resumable(integer_or_word_key(
          "run.eval_batches", {1, most::count}, "all",
          [](auto& c) -> auto& { return c.run.eval_batches; }))),
      resumable(limits_key("run.limits")),
  };
}

}  // namespace accrue::train
