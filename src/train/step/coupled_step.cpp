#include "accrue/train/coupled_step.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"
#include "accum/checked_sum.h"
#include "batch/schedule.h"
#include "core/even_parts.h"
#include "distributed/group/among_ranks.h"
#include "memory/thread_meter.h"
#include "support/snapshot.h"
#include "train/step/gathered.h"
#include "train/step/micro_batch_size.h"
#include "train/step/optimizer_steps.h"

namespace accrue::detail {
namespace {

using Representations = std::vector<at::Tensor>;

std::int64_t versions_of(const std::vector<at::Tensor>& buffers) {
  std::int64_t sum = 0;
  for (const at::Tensor& buffer : buffers) sum += static_cast<std::int64_t>(buffer._version());
  return sum;
}

void check_representations(const Representations& found, std::int64_t samples) {
  if (found.empty())
    throw usage_error("coupled_step", "at least one representation", "none",
                      "encode returning [samples, ...]");
  for (const at::Tensor& tensor : found)
    if (!tensor.defined() || tensor.dim() < 1 || tensor.size(0) != samples)
      throw usage_error(
          "coupled_step",
          "representations with one row for each of " + std::to_string(samples) + " samples",
          tensor.defined() ? "one " + c10::str(tensor.sizes()) : "an undefined one",
          "encode returning [samples of the slice, ...]");
}

/// Throws if the passes differ by more than rounding: kernels may not promise the same bits, but
/// another dropout mask makes a large difference.
void check_same(const Representations& first, const Representations& second) {
  constexpr double tolerance = 1e-3;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double scale = first[i].abs().max().item<double>();
    const double difference = (first[i] - second[i].detach()).abs().max().item<double>();
    if (difference > tolerance * scale)
      throw usage_error("coupled_step", "the same representations in both passes",
                        "a difference of " + std::to_string(difference),
                        "an encoder that takes randomness from libtorch's generators alone");
  }
}

/// One step in three passes over the micro-batches.
class CoupledStep {
 public:
  CoupledStep(const SteppedModel& model, const CoupledParts& parts, const StepOptions& options)
      : buffers_(model.buffers),
        parts_(parts),
        devices_(devices_of(tensors_of(model.parameters))),
        group_(options.group.get()),
        accumulator_(model.parameters, {.clip_norm = options.clip_norm,
                                        .watch_parameters = options.watch_parameters,
                                        .on_event = options.on_event,
                                        .group = options.group,
                                        .sharing = options.sharing}) {}

  /// The micro-batch that fits, found by a trial forward pass of the first sample with a graph.
  std::int64_t fitting_micro_batch(std::int64_t samples) {
    const Keep keep{GeneratorSnapshot(devices_)};
    memory::ThreadMeter meter;
    encode(0, 1);
    return train::decide_micro_batch(train::micro_trial(meter.peak(), samples)).samples;
  }

  void run_whole(std::int64_t samples) {
    samples_ = samples;
    accumulator_.backward(parts_.loss(encode(0, samples)));
  }

  void run_cached(const std::vector<batch::Range>& slices) {
    encode_all(slices);
    const std::int64_t own = slices.empty() ? 0 : slices.back().end;
    train::Gathered all{.towers = own_towers(), .rows = own};
    if (group_ != nullptr) all = train::gather_rows(*group_, all.towers, own);
    samples_ = all.rows;
    first_row_ = all.begin;
    for (const at::Tensor& leaf : all.towers) leaf.requires_grad_(true);
    if (differentiate_loss(all.towers)) encode_again(slices);
  }

  /// Sums over all ranks.
  std::int64_t samples() const { return samples_; }
  std::int64_t micro_batches() const { return micro_batches_; }

  StepReport step(torch::optim::Optimizer& optimizer) { return accumulator_.step(optimizer); }

 private:
  struct Slice {
    GeneratorSnapshot generators;
    Representations representations;
  };

  Representations encode(std::int64_t begin, std::int64_t end) const {
    Representations found = parts_.encode(begin, end);
    check_representations(found, end - begin);
    return found;
  }

  void encode_all(const std::vector<batch::Range>& slices) {
    const at::NoGradGuard no_graph;
    const std::int64_t before = versions_of(buffers_);
    for (const batch::Range& slice : slices) {
      GeneratorSnapshot generators(devices_);
      cache_.push_back({std::move(generators), encode(slice.begin, slice.end)});
      if (versions_of(buffers_) != before)
        throw usage_error("coupled_step", "an encoder that treats samples one by one",
                          "one that changes the model's buffers, as batch normalisation does",
                          "LayerNorm or GroupNorm, eval() of these layers, or a micro_batch of "
                          "the whole batch");
    }
  }

  Representations own_towers() const {
    Representations towers;
    for (std::size_t tower = 0; !cache_.empty() && tower < cache_.front().representations.size();
         ++tower) {
      std::vector<at::Tensor> rows;
      for (const Slice& slice : cache_) rows.push_back(slice.representations.at(tower));
      towers.push_back(at::cat(rows));
    }
    return towers;
  }

  /// `leaves` are the whole batch's. Each rank differentiates the loss for its own rows; the direct
  /// gradients of parameters, and the weight, are the first rank's. Returns whether there is a
  /// gradient to continue with, which there is not if the loss is not finite.
  bool differentiate_loss(const Representations& leaves) {
    const Loss loss = parts_.loss(leaves);
    const bool counts = std::isfinite(checked_sum(loss)) && loss.weight > 0;
    if (loss.sum.requires_grad())
      upstream_ = torch::autograd::grad({loss.sum}, leaves, {}, true, false, true);
    require_one_loss(counts);
    if (group_ == nullptr || group_->rank() == 0) {
      accumulator_.backward(loss);
    } else {
      accumulator_.backward({.sum = at::zeros({}, at::kDouble), .weight = 0});
    }
    return counts;
  }

  void require_one_loss(bool counts) {
    micro_batches_ = std::ssize(cache_);
    if (group_ == nullptr) return;
    const at::Tensor sums = at::tensor({counts ? std::int64_t{1} : 0, micro_batches_}, at::kLong);
    group_->start_sum(sums, "the coupled loss")->wait();
    const auto ranks = sums[0].item<std::int64_t>();
    micro_batches_ = sums[1].item<std::int64_t>();
    if (ranks == 0 || ranks == group_->world()) return;
    throw runtime_error(
        "coupled_step", "the same loss on all ranks",
        "one that is finite on " + std::to_string(ranks) + " of " + std::to_string(group_->world()),
        "a loss_fn that depends on the representations and parameters alone");
  }

  void encode_again(const std::vector<batch::Range>& slices) {
    const Keep keep{GeneratorSnapshot(devices_)};
    for (std::size_t i = 0; i < slices.size(); ++i) {
      cache_[i].generators.restore();
      const Representations again = encode(slices[i].begin, slices[i].end);
      check_same(cache_[i].representations, again);
      differentiate(again, slices[i]);
    }
  }

  /// Differentiates representations. Those that do not depend on the parameters, or that the loss
  /// did not use, are skipped.
  void differentiate(const Representations& again, batch::Range slice) {
    Representations outputs, gradients;
    for (std::size_t tower = 0; tower < again.size(); ++tower) {
      if (!again[tower].requires_grad() || !upstream_[tower].defined()) continue;
      outputs.push_back(again[tower]);
      gradients.push_back(
          upstream_[tower].slice(0, first_row_ + slice.begin, first_row_ + slice.end));
    }
    if (!outputs.empty()) accumulator_.backward_from(outputs, gradients);
  }

  const std::vector<at::Tensor>& buffers_;
  const CoupledParts& parts_;
  std::vector<at::Device> devices_;
  distributed::Group* group_;  ///< null: this process is alone
  Accumulator accumulator_;
  std::vector<Slice> cache_;
  Representations upstream_;        ///< gradient of the loss, for the whole batch's representations
  std::int64_t samples_ = 0;        ///< of the whole batch
  std::int64_t micro_batches_ = 1;  ///< of all ranks
  std::int64_t first_row_ = 0;      ///< of this rank's samples in it
};

/// The samples in even parts of at most `most`; none if there are no samples.
std::vector<batch::Range> even_slices(std::int64_t samples, std::int64_t most) {
  std::vector<batch::Range> slices;
  for (std::int64_t begin = 0; begin < samples; begin = slices.back().end)
    slices.push_back({begin, begin + even_part(samples - begin, most)});
  return slices;
}

StepReport take_coupled_step(const SteppedModel& model, torch::optim::Optimizer& optimizer,
                             std::int64_t samples, const CoupledParts& parts,
                             const StepOptions& options) {
  const bool is_alone = options.group == nullptr;
  train::check_batch("accrue::coupled_step", samples, options.micro_batch, !is_alone);
  CoupledStep coupled(model, parts, options);
  const std::int64_t micro = options.micro_batch > 0 || samples == 0
                                 ? options.micro_batch
                                 : coupled.fitting_micro_batch(samples);
  const std::vector<batch::Range> slices = even_slices(samples, micro);
  if (slices.size() == 1 && is_alone) {
    coupled.run_whole(samples);
  } else {
    coupled.run_cached(slices);
  }
  StepReport report = coupled.step(optimizer);
  report.step = train::steps_taken(optimizer).value_or(report.step);
  report.samples = coupled.samples();
  report.micro_batch = slices.empty() ? 0 : slices.front().size();
  report.micro_batches = coupled.micro_batches();
  return report;
}

}  // namespace

StepReport coupled_step_in_slices(const SteppedModel& model, torch::optim::Optimizer& optimizer,
                                  std::int64_t samples, const CoupledParts& parts,
                                  const StepOptions& options) {
  return distributed::among_ranks(options.group.get(), [&] {
    return take_coupled_step(model, optimizer, samples, parts, options);
  });
}

}  // namespace accrue::detail
