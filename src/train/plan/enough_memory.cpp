#include "train/plan/enough_memory.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "train/plan/plan_estimate.h"
#include "train/workload/model_factory.h"

namespace accrue::train {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

// Margins for what the arithmetic ignores: blocks are up to an eighth larger than requested,
// activations are known to a fifth, and small amounts matter in a small model.
constexpr double kStateFactor = 1.125, kActivationFactor = 1.5;
constexpr std::int64_t kBesides = 16 * kMebibyte;
/// Packed weights take at most this share of a budget.
constexpr double kPackedShare = 1.0 / 24;
/// Memory outside tensors that the first passes add: oneDNN's code and scratch, libtorch's pages,
/// and memory of each thread.
constexpr std::int64_t kOutsideToCome = 24 * kMebibyte, kOutsideOfAThread = 4 * kMebibyte;
/// A vocabulary larger than usual, for when only the data would determine it.
constexpr std::int64_t kLargeVocabulary = 65'536;

/// Whether text is read byte by byte, judged by the config.
bool reads_bytes(const Config& config) {
  const auto holds_tokens = [](const std::string& name) { return name.ends_with(".bin"); };
  const std::string& tokenizer = config.data.tokenizer;
  return (tokenizer == data::kByteTokenizer || tokenizer == data::kAutoTokenizer) &&
         config.data.format != data::Format::tokens &&
         std::ranges::none_of(config.data.train, holds_tokens);
}

/// The bytes of the loss: logits, their exponentials and gradients, whole or by chunks of bounded
/// size.
double loss_bytes(const Config& config, std::int64_t tokens) {
  constexpr double kCopies = 4, kChunked = 64e6;
  const double logits = kCopies * 4 * static_cast<double>(tokens) *
                        static_cast<double>(config.model.vocab.value_or(0));
  return config.loss.cross_entropy == CrossEntropy::fused ? std::min(logits, kChunked) : logits;
}

double tensor_bytes(const RunEstimate& estimate, const Config& config) {
  std::int64_t sample = estimate.modes.front().sample_bytes;
  for (const RunEstimate::Mode& mode : estimate.modes) sample = std::min(sample, mode.sample_bytes);
  const auto micro = static_cast<double>(estimate.micro_batch);
  const double working = micro * static_cast<double>(sample) +
                         loss_bytes(config, estimate.micro_batch * estimate.sample_tokens);
  const std::int64_t state = config.memory.offloads() ? 0 : estimate.held.total();
  return (kStateFactor * static_cast<double>(state) + kActivationFactor * working +
          static_cast<double>(kBesides)) /
         (1 - kPackedShare);
}

std::optional<std::int64_t> enough_for_tensors(const Config& config,
                                               const EstimateOptions& options) {
  const std::optional<RunEstimate> estimate = estimate_if_known(config, options);
  if (!estimate) return std::nullopt;
  return static_cast<std::int64_t>(tensor_bytes(*estimate, config));
}

/// The budget that leaves `tensors` bytes for tensors if it is the whole process's, which also
/// holds `outside`.
std::int64_t budget_for(std::int64_t tensors, std::int64_t outside) {
  if (memory::budget_of() == memory::BudgetOf::tensors) return tensors;
  return memory::budget_that_leaves(tensors, outside_of_a_run(outside));
}

std::optional<std::int64_t> enough(const Config& config, const EstimateOptions& options) {
  const std::optional<std::int64_t> tensors = enough_for_tensors(config, options);
  const std::optional<std::int64_t> stated = memory::budget();
  if (!tensors || !stated) return tensors;
  return budget_for(*tensors, memory::left_outside() - memory::reserve_outside(*stated));
}

/// The config of a workload, whose model is known without its files.
Config shape_of(const Workload& work) {
  Config known = work.config;
  known.model.from.clear();
  return known;
}

/// The shape of a run under its plan.
Config planned(const Workload& work, std::int64_t micro_batch, Recompute recompute) {
  Config config = shape_of(work);
  config.batch.micro = micro_batch;
  config.memory.recompute = recompute;
  return config;
}

EstimateOptions options_of(const Workload& work) {
  EstimateOptions options;
  if (const auto image = work.data.train->image_shape())
    options.image = {image->channels, image->height, image->width};
  return options;
}

}  // namespace

Config with_assumed_vocabulary(Config config) {
  if (!config.model.vocab && is_language_model(config.model.kind))
    config.model.vocab =
        reads_bytes(config) ? byte_vocabulary_of(config.model.kind) : kLargeVocabulary;
  return config;
}

std::optional<std::int64_t> enough_budget(const Config& config) {
  return enough(with_assumed_vocabulary(config), {});
}

std::optional<std::int64_t> enough_budget(const Workload& work) {
  return enough(shape_of(work), options_of(work));
}

std::optional<std::int64_t> enough_budget(const Workload& work, std::int64_t micro_batch,
                                          Recompute recompute) {
  return enough(planned(work, micro_batch, recompute), options_of(work));
}

std::int64_t budget_to_go_on(const Workload& work, std::int64_t micro_batch, Recompute recompute) {
  const auto shape = enough_for_tensors(planned(work, micro_batch, recompute), options_of(work));
  const std::int64_t outside =
      std::max<std::int64_t>(0, memory::resident_bytes() - memory::resident_in_tensors());
  return budget_for(shape.value_or(memory::usage().reserved), outside);
}

std::int64_t outside_of_a_run(std::int64_t outside) {
  return outside + kOutsideToCome + kOutsideOfAThread * at::get_num_threads();
}

}  // namespace accrue::train
