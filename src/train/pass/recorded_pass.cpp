#include "train/pass/recorded_pass.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/kernels/cross_entropy.h"
#include "core/exception_text.h"
#include "kernels/checked_labels.h"

namespace accrue::train {
namespace {

/// Shapes that alternate (the last micro-batch of a batch has another), each with fresh slots and
/// with others.
constexpr std::size_t most_kinds = 6;

/// The state of the slots after a pass, besides sums.
struct SlotState {
  bool fresh, unfinished;
  std::int64_t contributions;
};

std::vector<SlotState> states_of(const NamedParameters& parameters) {
  std::vector<SlotState> states;
  for (const NamedParameter& parameter : parameters) {
    const kernels::GradSlot* slot = kernels::slot_of(parameter.tensor);
    states.push_back(slot == nullptr
                         ? SlotState{false, false, 0}
                         : SlotState{slot->fresh, slot->unfinished, slot->contributions});
  }
  return states;
}

void restore(const NamedParameters& parameters, const std::vector<SlotState>& states) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    kernels::GradSlot* slot = kernels::slot_of(parameters[i].tensor);
    if (slot == nullptr) continue;
    slot->fresh = states[i].fresh;
    slot->unfinished = states[i].unfinished;
    slot->contributions = states[i].contributions;
    slot->bound_version = slot->bound._version();
  }
}

/// Whether the pass changes nothing of a slot but the sum's memory.
bool is_plain(const kernels::GradSlot* slot) {
  return slot == nullptr || (slot->open && !slot->fold && !slot->after_contribution);
}

at::Tensor labels_that_count(const at::Tensor& targets) {
  return targets.masked_select(targets.ne(kernels::ignored_label));
}

/// Copies `host` to memory that work on `device` reads, from pinned memory, so without waiting.
void bring(const at::Tensor& host, c10::Device device, at::Tensor& there) {
  if (!there.defined()) there = at::empty(host.sizes(), host.options().device(device));
  there.copy_(host.pin_memory(), /*non_blocking=*/true);
}

}  // namespace

bool RecordedPass::Range::holds(const at::Tensor& numbers) const {
  if (numbers.numel() == 0) return true;
  const auto [from, to] = at::aminmax(numbers);
  return from.item<std::int64_t>() >= least && to.item<std::int64_t>() <= largest;
}

void RecordedPass::Range::extend(const at::Tensor& numbers) {
  if (numbers.numel() == 0) return;
  const auto [from, to] = at::aminmax(numbers);
  const bool is_first = largest < least;
  least = is_first ? from.item<std::int64_t>() : std::min(least, from.item<std::int64_t>());
  largest = is_first ? to.item<std::int64_t>() : std::max(largest, to.item<std::int64_t>());
}

void check_recorded_pass(models::Trainable& model, c10::Device device) {
  const auto refuse = [](const std::string& expected, const std::string& received) {
    throw usage_error("run.graphs", expected, received, "graphs = false");
  };
  if (device.is_cpu()) refuse("a GPU", "the CPU");
  device::expect_recordable(device);
  if (!model.prepare_recorded_pass())
    refuse("a model whose passes do not differ: no dropout, no DoRA, one fused loss",
           "another one");
}

PassResult RecordedPass::run(const batch::MicroBatch& micro, const ForwardContext& context,
                             const PassOptions& options) {
  if (!can_repeat(micro, context, options)) return run_unrecorded(micro, context, options);
  if (!knows(micro)) return run_unrecorded(micro, context, options);
  Recorded& recorded = find(kind_of(micro, options));
  bring(micro.inputs, device_, recorded.inputs);
  bring(micro.targets, device_, recorded.targets);
  if (!recorded.has_run) {
    PassResult result = run_on_device_inputs(recorded, micro, context, options);
    recorded.has_run = true;
    return counted(std::move(result), micro, options);
  }
  if (recorded.work == nullptr && !record(recorded, micro, context, options))
    return run_unrecorded(micro, context, options);
  return repeat(recorded, micro, options);
}

bool RecordedPass::can_repeat(const batch::MicroBatch& micro, const ForwardContext& context,
                              const PassOptions& options) const {
  if (has_stopped_ || !options.leave_losses_on_device || micro.is_empty()) return false;
  const bool is_text = micro.inputs.defined() && micro.inputs.is_cpu() &&
                       micro.inputs.scalar_type() == at::kLong && micro.targets.defined() &&
                       micro.targets.is_cpu() && micro.targets.scalar_type() == at::kLong;
  const bool is_even = context.spans.empty() && !micro.weights.defined() &&
                       !micro.reference.defined() && context.training;
  return is_text && is_even && context.operations == nullptr &&
         std::ranges::all_of(parameters_, [](const NamedParameter& parameter) {
           return is_plain(kernels::slot_of(parameter.tensor));
         });
}

bool RecordedPass::knows(const batch::MicroBatch& micro) const {
  return ids_.holds(micro.inputs) && labels_.holds(labels_that_count(micro.targets));
}

RecordedPass::Kind RecordedPass::kind_of(const batch::MicroBatch& micro,
                                         const PassOptions& options) {
  Kind kind{.inputs = micro.inputs.sizes().vec(),
            .targets = micro.targets.sizes().vec(),
            .factors = options.factors,
            .reference = options.reference,
            .loss_scale = options.loss_scale,
            .weighting = options.weighting,
            .recompute = options.recompute};
  for (const NamedParameter& parameter : parameters_) {
    const kernels::GradSlot* slot = kernels::slot_of(parameter.tensor);
    kind.fresh.push_back(slot != nullptr && slot->fresh);
    kind.memory.push_back(parameter.tensor.const_data_ptr());
    kind.memory.push_back(slot == nullptr ? nullptr : slot->main.const_data_ptr());
  }
  const std::vector<at::Tensor> operands = model_.prepare_recorded_pass().value();
  for (const at::Tensor& operand : operands) kind.memory.push_back(operand.const_data_ptr());
  return kind;
}

/// The entry of this kind; if there are many, it replaces the least recently used one.
RecordedPass::Recorded& RecordedPass::find(Kind kind) {
  auto found = std::ranges::find(recorded_, kind, &Recorded::kind);
  if (found == recorded_.end()) {
    if (recorded_.size() == most_kinds)
      recorded_.erase(std::ranges::min_element(recorded_, {}, &Recorded::last_used));
    recorded_.push_back({.kind = std::move(kind)});
    found = std::prev(recorded_.end());
  }
  found->last_used = ++used_;
  return *found;
}

PassResult RecordedPass::run_unrecorded(const batch::MicroBatch& micro,
                                        const ForwardContext& context, const PassOptions& options) {
  PassResult result = forward_backward(model_, micro, context, options);
  if (micro.is_empty() || micro.inputs.scalar_type() != at::kLong) return result;
  ids_.extend(micro.inputs);
  labels_.extend(labels_that_count(micro.targets));
  return result;
}

const device::Recording* RecordedPass::any_work() const {
  const auto found = std::ranges::find_if(
      recorded_, [](const Recorded& recorded) { return recorded.work != nullptr; });
  return found == recorded_.end() ? nullptr : found->work.get();
}

/// The pass that is recorded: forward_backward() on the device's copies.
PassResult RecordedPass::run_on_device_inputs(const Recorded& recorded,
                                              const batch::MicroBatch& micro,
                                              const ForwardContext& context,
                                              const PassOptions& options) {
  batch::MicroBatch there = micro;
  there.inputs = recorded.inputs;
  there.targets = recorded.targets;
  const kernels::CheckedLabels checked;
  return forward_backward(model_, there, context, options);
}

/// Adds the weight of the labels, which is not computed on the device.
PassResult RecordedPass::counted(PassResult result, const batch::MicroBatch& micro,
                                 const PassOptions& options) const {
  const double weight = model_.losses().front().weight(micro);
  result.weight = weight * options.weighting;
  result.heads.weights = {weight};
  return result;
}

void RecordedPass::stop(const std::string& reason) {
  if (has_stopped_) return;
  has_stopped_ = true;
  recorded_.clear();
  news_ = "each micro-batch is run from here on, and none is repeated by one launch: " + reason;
}

bool RecordedPass::record(Recorded& recorded, const batch::MicroBatch& micro,
                          const ForwardContext& context, const PassOptions& options) {
  const std::vector<SlotState> before = states_of(parameters_);
  if (!stream_) stream_ = device::new_stream(device_);
  try {
    recorded.work = std::make_unique<device::Recording>(
        *stream_,
        [&] { recorded.result = run_on_device_inputs(recorded, micro, context, options); },
        any_work());
  } catch (const Error&) {
    restore(parameters_, before);
    throw;
  } catch (const std::exception& error) {
    restore(parameters_, before);
    stop(text_of(error));
    return false;
  }
  const std::vector<SlotState> after = states_of(parameters_);
  for (std::size_t i = 0; i < before.size(); ++i)
    recorded.contributions.push_back(after[i].contributions - before[i].contributions);
  restore(parameters_, before);
  news_ = "micro-batches like this one, of " + c10::str(micro.inputs.sizes()) +
          " tokens, take one launch each from here on";
  return true;
}

PassResult RecordedPass::repeat(Recorded& recorded, const batch::MicroBatch& micro,
                                const PassOptions& options) {
  recorded.work->repeat();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    for (std::int64_t added = 0; added < recorded.contributions[i]; ++added)
      kernels::slot_of(parameters_[i].tensor)->count_contribution();
  ++repeated_;
  PassResult result = recorded.result;
  result.unread = result.unread.clone();  // which the next repetition overwrites
  return counted(std::move(result), micro, options);
}

}  // namespace accrue::train
