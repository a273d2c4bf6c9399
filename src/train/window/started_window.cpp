#include "train/window/started_window.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string_view>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

using Entry = accum::GradientBuffer::Entry;

/// A slot's sum as it is stored in a file: with a compensation if there is one.
at::Tensor content_of(const Entry& entry) {
  return entry.staged ? accum::GradientBuffer::saved_sum(entry) : entry.slot->main;
}

StoredTensor stored_sum(const Entry& entry) {
  const at::Tensor now = content_of(entry);
  return {sum_prefix + entry.name, now.scalar_type(), now.sizes().vec(),
          [entry](const at::Tensor& target) { target.copy_(content_of(entry)); }};
}

}  // namespace

StoredTensors stored_sums(const accum::GradientBuffer& buffer) {
  StoredTensors sums;
  for (const Entry& entry : buffer.entries())
    if (!entry.slot->fresh) sums.push_back(stored_sum(entry));
  return sums;
}

std::map<std::string, std::int64_t> contributions_of(const accum::GradientBuffer& buffer) {
  std::map<std::string, std::int64_t> counts;
  for (const Entry& entry : buffer.entries())
    if (!entry.slot->fresh) counts[entry.name] = entry.slot->contributions;
  return counts;
}

StoredTensors stored_buffers(const models::Trainable& model) {
  const at::NoGradGuard no_grad;
  NamedParameters copies;
  for (const NamedParameter& buffer : model.buffers())
    if (buffer.tensor.defined())
      copies.push_back({buffer_prefix + buffer.name, buffer.tensor.clone()});
  return stored(copies);
}

StartedWindow with_copies(StartedWindow started) {
  NamedParameters copies;
  for (const StoredTensor& tensor : started.tensors) copies.push_back({tensor.name, tensor.read()});
  started.tensors = stored(copies);
  return started;
}

HeadSums losses_of(const DoneMicroBatch& done, const std::vector<models::LossHead>& heads) {
  HeadSums sums{.sums = done.loss_sums, .weights = done.loss_weights, .measures = done.measures};
  if (sums.sums.empty() && sums.measures.empty()) return sums;
  std::size_t measures = 0;
  for (const models::LossHead& head : heads) measures += head.measures.size();
  if (sums.sums.size() != heads.size() || sums.weights.size() != heads.size() ||
      (!sums.measures.empty() && sums.measures.size() != measures))
    throw usage_error("go on in the middle of a window",
                      "sums and weights of " + std::to_string(heads.size()) + " losses",
                      "others in the checkpoint", "an earlier checkpoint of the run");
  return sums;
}

accum::WindowState state_of(const StartedWindow& started) {
  const WindowMiddle& middle = started.middle;
  accum::WindowState state{.index = middle.window,
                           .open = true,
                           .lost = false,
                           .loss_scale = middle.loss_scale,
                           .entries = {},
                           .sums = {},
                           .contributions = {},
                           .units = middle.units};
  for (std::size_t i = 0; i < middle.done.size(); ++i) state.entries.push_back(middle.entry_of(i));
  for (const StoredTensor& sum : started.tensors) {
    if (!sum.name.starts_with(sum_prefix)) continue;
    const std::string name = sum.name.substr(std::string_view(sum_prefix).size());
    const auto count = middle.contributions.find(name);
    if (count == middle.contributions.end())
      throw usage_error("go on in the middle of a window", "a count for each gradient sum",
                        "none for '" + name + "'", "an earlier checkpoint of the run");
    state.sums.push_back({name, sum.read()});
    state.contributions.push_back(count->second);
  }
  if (state.sums.size() != middle.contributions.size())
    throw usage_error("go on in the middle of a window",
                      std::to_string(middle.contributions.size()) + " gradient sums",
                      std::to_string(state.sums.size()), "an earlier checkpoint of the run");
  return state;
}

void load_buffers(const StartedWindow& started, const models::Trainable& model) {
  const at::NoGradGuard no_grad;
  for (const NamedParameter& buffer : model.buffers()) {
    if (!buffer.tensor.defined()) continue;
    const auto kept =
        std::ranges::find(started.tensors, buffer_prefix + buffer.name, &StoredTensor::name);
    if (kept == started.tensors.end() || kept->shape != buffer.tensor.sizes().vec())
      throw usage_error("go on in the middle of a window", "each of the model's buffers",
                        "none that fits '" + buffer.name + "'", "an earlier checkpoint of the run");
    kept->copy_to(buffer.tensor);
  }
}

}  // namespace accrue::train
