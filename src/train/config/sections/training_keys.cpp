#include <cmath>
#include <cstdlib>

#include "accrue/core/error.h"
#include "train/config/accumulation_order.h"
#include "train/config/gradient_folding.h"
#include "train/config/key_builders.h"
#include "train/config/sections/sections.h"
#include "train/config/translations/carries.h"
#include "train/config/translations/other_words.h"

namespace accrue::train {
namespace {

/// States where gradients go, also if optim.kind leaves no choice.
Key decided_by_optimizer(Key gradients) {
  gradients.get = [](const Config& config) {
    const GradientPlace place =
        folds_gradients(config) ? GradientPlace::optimizer : GradientPlace::buffer;
    return std::optional(value_of(std::string(gradient_place_words.of(place))));
  };
  return gradients;
}

/// States the order that memory.offload decides, so that a run that is resumed without it keeps the
/// order of its sums.
Key decided_by_offload(Key order) {
  order.get = [](const Config& config) {
    const AccumulationOrder decided =
        asks_for_layered(config) ? AccumulationOrder::layered : config.memory.accumulation;
    return std::optional(value_of(std::string(accumulation_order_words.of(decided))));
  };
  return order;
}

std::string without_spaces_around(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == text.npos ? "" : text.substr(first, last - first + 1);
}

/// Reads "PATTERN = LR".
RateOfPattern read_rate(const std::string& text, const Stated& stated,
                        const std::string& expected) {
  const std::size_t sign = text.rfind('=');
  const auto refuse = [&]() -> Error {
    return usage_error(stated.where, expected, '"' + text + '"',
                       "such as \"embed_tokens = 1e-5\", with a rate above 0");
  };
  if (sign == text.npos) throw refuse();
  const std::string number = without_spaces_around(text.substr(sign + 1));
  char* end = nullptr;
  const RateOfPattern rate{.match = without_spaces_around(text.substr(0, sign)),
                           .lr = std::strtod(number.c_str(), &end)};
  const bool is_number = !number.empty() && *end == '\0' && std::isfinite(rate.lr);
  if (rate.match.empty() || !is_number || rate.lr <= 0) throw refuse();
  return rate;
}

Key rates_key(KeyName name) {
  return make_key(
      std::move(name), "an array of \"PATTERN = RATE\"",
      [](auto& c) -> auto& { return c.optim.rates; },
      [](const Stated& stated, const std::string& expected) {
        std::vector<RateOfPattern> rates;
        for (const std::string& text : read_strings(stated, expected))
          rates.push_back(read_rate(text, stated, expected));
        return rates;
      },
      [](const std::vector<RateOfPattern>& rates) {
        std::vector<std::string> texts;
        for (const RateOfPattern& rate : rates)
          texts.push_back(rate.match + " = " + to_toml(Value{rate.lr}));
        return value_of(texts);
      });
}

}  // namespace

std::vector<Key> precision_keys() {
  return {
      choice_key(
          {"precision.compute",
           "Number format of forward and backward (mixed precision with bf16 and fp16)."},
          models::compute_words, half_precisions(),
          [](auto& c) -> auto& { return c.precision.compute; }, carry::precision),
      read_with("precision.compute", {"fp16"},
                integer_or_word_key(
                    {"precision.loss_scale",
                     "Factor that losses are multiplied by in fp16, so that small gradients do not "
                     "become 0."},
                    {1, most::loss_scale}, "dynamic",
                    [](auto& c) -> auto& { return c.precision.loss_scale; })),
      choice_key(
          {"precision.accumulate", "Number format in which gradients of micro-batches are summed."},
          accum::accumulation_words, {}, [](auto& c) -> auto& { return c.precision.accumulate; }),
  };
}

std::vector<Key> memory_keys() {
  return {
      resumable(budget_key({"memory.budget", "Memory that the process may hold."})),
      resumable(string_key(
          {"memory.budget_file", "File with the budget, which may change during the run."},
          "a file's path", [](auto& c) -> auto& { return c.memory.budget_file; })),
      resumable(choice_or_auto_key(
          {"memory.recompute", "Gradient checkpointing: what the backward pass computes again."},
          recompute_words, {}, [](auto& c) -> auto& { return c.memory.recompute; })),
      decided_by_optimizer(choice_key(
          {"memory.gradients",
           "Sum gradients in a buffer, or fold them into the optimizer's state."},
          gradient_place_words, {}, [](auto& c) -> auto& { return c.memory.gradients; })),
      decided_by_offload(choice_key(
          {"memory.accumulation",
           "Order of a window: each micro-batch through the whole model (standard), or all through "
           "one segment after the other (layered)."},
          accumulation_order_words, {}, [](auto& c) -> auto& { return c.memory.accumulation; })),
      resumable(string_key(
          {"memory.offload",
           "Folder for a file that holds parameters, sums of gradients and optimizer state."},
          "a folder's path, or \"auto\"", [](auto& c) -> auto& { return c.memory.offload; })),
      read_where(
          "memory.offload = \"FOLDER\"", "", "memory.offload",
          [](const Config& c) {
            return !c.memory.offload.empty() || !c.memory.has_offload_budget();
          },
          resumable(offload_budget_key(
              {"memory.offload_budget", "The most that the file in memory.offload may take."}))),
  };
}

std::vector<Key> loss_keys() {
  return {
      read_with(
          "model.kind", {"gpt2", "llama", "bert"},
          choice_key(
              {"loss.kind", "Next token (lm), hidden tokens (mlm), or preferences (dpo, orpo)."},
              models::loss_kind_words, {}, [](auto& c) -> auto& { return c.loss.kind; })),
      read_with("loss.kind", {"dpo", "orpo"},
                number_key(
                    {"loss.beta", "Weight of a preference."}, {.least = 0, .least_excluded = true},
                    [](auto& c) -> auto& { return c.loss.beta; })),
      read_with("loss.kind", {"mlm"},
                number_key(
                    {"loss.mask_fraction", "Probability that a token is chosen as one to predict."},
                    {.least = 0, .most = 1, .least_excluded = true},
                    [](auto& c) -> auto& { return c.loss.mask_fraction; })),
      read_with("loss.kind", {"mlm"},
                integer_or_word_key(
                    {"loss.mask_token", "Id of the token that hides others."}, {0, most::vocab - 1},
                    "auto", [](auto& c) -> auto& { return c.loss.mask_token; })),
      read_with("model.kind", {"gpt2", "llama", "bert"},
                read_with("loss.kind", {"lm", "mlm"},
                          choice_key(
                              {"loss.cross_entropy",
                               "Compute the loss by parts of the vocabulary's logits (fused), or "
                               "from whole logits (plain)."},
                              cross_entropy_words, {},
                              [](auto& c) -> auto& { return c.loss.cross_entropy; }))),
      read_with(
          "loss.kind", {"lm", "mlm"},
          number_key(
              {"loss.label_smoothing", "Label smoothing, as PyTorch's cross_entropy defines it."},
              {.least = 0, .most = 1, .most_excluded = true},
              [](auto& c) -> auto& { return c.loss.label_smoothing; })),
      read_with("loss.kind", {"lm", "mlm"},
                number_key(
                    {"loss.z_loss", "Weight of the z-loss, logsumexp(logits)^2 (PaLM)."},
                    {.least = 0}, [](auto& c) -> auto& { return c.loss.z_loss; })),
      read_with("model.kind", {"torchscript"},
                heads_key({"loss.heads",
                           "Losses of a TorchScript module: outputs, targets and coefficients."})),
      read_with("model.kind", {"torchscript"},
                string_key(
                    {"loss.method", "Method of a TorchScript module that returns its own loss."},
                    "the name of a method of the module, such as \"loss\"",
                    [](auto& c) -> auto& { return c.loss.method; })),
  };
}

std::vector<Key> optim_keys() {
  return {
      choice_key(
          {"optim.kind", "Optimizer."}, optimizer_kind_words, other_optimizers(),
          [](auto& c) -> auto& { return c.optim.kind; }, carry::optimizer),
      number_key(
          {"optim.lr", "Peak learning rate."}, {.least = 0, .least_excluded = true},
          [](auto& c) -> auto& { return c.optim.lr; }),
      rates_key({"optim.rates",
                 "Learning rates of their own for parameters by pattern: \"PATTERN = RATE\"."}),
      read_with("optim.kind", {"adamw", "adam", "adama"},
                betas_key({"optim.betas", "Decay of the first and second moment."})),
      read_with("optim.kind", {"adamw", "adam", "rmsprop", "adama"},
                number_key(
                    {"optim.eps", "Added to the denominator of the update."}, {.least = 0},
                    [](auto& c) -> auto& { return c.optim.eps; })),
      number_key(
          {"optim.weight_decay", "Decoupled weight decay."}, {.least = 0},
          [](auto& c) -> auto& { return c.optim.weight_decay; }),
      choice_key(
          {"optim.decay", "Which parameters decay."}, decay_words, {},
          [](auto& c) -> auto& { return c.optim.decay; }),
      read_with("optim.kind", {"sgd", "rmsprop"},
                number_key(
                    {"optim.momentum", "Momentum."}, {.least = 0, .most = 1, .most_excluded = true},
                    [](auto& c) -> auto& { return c.optim.momentum; })),
      number_key(
          {"optim.clip", "Largest global norm of the gradient; 0 does not clip."}, {.least = 0},
          [](auto& c) -> auto& { return c.optim.clip; }),
      resumable(choice_key(
          {"optim.on_divergence",
           "Whether a run whose loss diverges goes on with a warning, or stops."},
          on_divergence_words, {}, [](auto& c) -> auto& { return c.optim.on_divergence; })),
      choice_key(
          {"optim.state", "Number format of the optimizer's moments."},
          optim::state_precision_words, {}, [](auto& c) -> auto& { return c.optim.state; }),
      choice_key(
          {"optim.schedule.kind", "Course of the learning rate after the warm-up."},
          optim::schedule_kind_words, {}, [](auto& c) -> auto& { return c.optim.schedule.kind; },
          carry::schedule),
      duration_key(
          {"optim.schedule.warmup", "Part of the run over which the learning rate grows from 0."},
          {.zero_allowed = true, .time_allowed = false},
          [](auto& c) -> auto& { return c.optim.schedule.warmup; }),
      read_with("optim.schedule.kind", {"cosine", "linear"},
                number_key(
                    {"optim.schedule.min_lr", "Learning rate at the end of the schedule."},
                    {.least = 0}, [](auto& c) -> auto& { return c.optim.schedule.min_lr; })),
      choice_key(
          {"optim.scale_lr", "How the learning rate follows the batch size (linear scaling rule)."},
          optim::scale_rule_words, {}, [](auto& c) -> auto& { return c.optim.scale_lr; }),
      read_with("optim.scale_lr", {"linear", "sqrt"},
                integer_key(
                    {"optim.base_batch", "Batch size that optim.lr was found for."},
                    {1, most::tokens}, [](auto& c) -> auto& { return c.optim.base_batch; })),
  };
}

}  // namespace accrue::train
