#include "train/ranks/divided_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

constexpr const char* kOptimizerState = "the optimizer's state";

/// The parts of each tensor of the whole state that an optimizer keeps, also if it keeps all.
std::vector<optim::StateRange> ranges_of(const optim::Optimizer& optimizer) {
  std::vector<optim::StateRange> ranges = optimizer.ranges();
  if (!ranges.empty()) return ranges;
  for (const auto& [name, tensor] : optimizer.state())
    if (name != kStepName)
      ranges.push_back({name, tensor.sizes().vec(), {0, tensor.numel()}, tensor.view({-1})});
  return ranges;
}

std::vector<ElementRange> elements_of(const std::vector<optim::StateRange>& ranges) {
  std::vector<ElementRange> elements;
  elements.reserve(ranges.size());
  for (const optim::StateRange& range : ranges) elements.push_back(range.range);
  return elements;
}

StateSource source_of(const std::vector<optim::StateRange>& ranges, std::int64_t step) {
  return {{step, elements_of(ranges)},
          [ranges](std::size_t tensor) { return ranges[tensor].values.view({-1}); }};
}

/// Reads each tensor once, if the requests for it are consecutive.
class TensorsOfFile {
 public:
  explicit TensorsOfFile(StoredTensors tensors) : tensors_(std::move(tensors)) {}

  at::Tensor values(std::size_t tensor) {
    if (std::exchange(held_, tensor) != tensor) values_ = tensors_[tensor].read().view({-1});
    return values_;
  }

 private:
  StoredTensors tensors_;
  std::optional<std::size_t> held_;
  at::Tensor values_;
};

const StoredTensor& find(const StoredTensors& tensors, const optim::StateRange& like) {
  const auto found = std::ranges::find(tensors, like.name, &StoredTensor::name);
  if (found != tensors.end() && found->shape == like.shape &&
      found->dtype == like.values.scalar_type())
    return *found;
  throw usage_error("take the optimizer's state from a checkpoint",
                    like.name + " as the run has it",
                    found == tensors.end() ? "none of that name" : "another",
                    "the checkpoint of a run with the same optimizer");
}

bool contains(const StateSource& source, const Division& division, const StateTransfer& transfer) {
  if (source.parts.step != division.step) return false;
  const ElementRange& range = source.parts.ranges.at(transfer.tensor);
  return range.begin <= transfer.elements.begin &&
         range.begin + range.elements >= transfer.elements.begin + transfer.elements.elements;
}

/// This rank's values that it has to give.
at::Tensor values_to_give(const StateSources& sources, const Division& division,
                          const StateTransfer& transfer) {
  const StateSource& source =
      contains(sources.own, division, transfer) ? sources.own : sources.replica;
  return source.values(transfer.tensor)
      .narrow(0, transfer.elements.begin - source.parts.ranges[transfer.tensor].begin,
              transfer.elements.elements);
}

at::Tensor as_bytes(const at::Tensor& values) { return values.view(at::kByte); }

/// The parts that this rank is to keep, by tensor. All ranks pass the parts on in one order, so
/// that no two ranks wait for each other.
std::vector<at::Tensor> pass_on(const Ranks& ranks, const Division& division,
                                const StateSources& sources,
                                const std::vector<optim::StateRange>& wanted) {
  std::vector<at::Tensor> taken;
  taken.reserve(wanted.size());
  for (const optim::StateRange& range : wanted)
    taken.push_back(at::empty({range.range.elements}, range.values.options()));
  for (const StateTransfer& transfer : division.transfers) {
    const bool is_source = transfer.from == ranks.rank(), is_taker = transfer.to == ranks.rank();
    at::Tensor given, place;
    if (is_source) given = values_to_give(sources, division, transfer).contiguous();
    if (is_taker)
      place = taken[transfer.tensor].narrow(
          0, transfer.elements.begin - wanted[transfer.tensor].range.begin,
          transfer.elements.elements);
    if (is_source && is_taker)
      place.copy_(given);
    else if (is_source)
      ranks.send(as_bytes(given), transfer.to, kOptimizerState);
    else if (is_taker)
      ranks.receive(as_bytes(place), transfer.from, kOptimizerState);
  }
  return taken;
}

}  // namespace

StateSources sources_of(const RunOptimizer& optimizer) {
  const std::int64_t step = steps_taken(optimizer.whole());
  StateSources sources{source_of(ranges_of(optimizer.whole()), step), {}};
  const SliceReplica* replica = optimizer.sharded() ? optimizer.sharded()->replica() : nullptr;
  if (replica != nullptr && replica->step())
    sources.replica = source_of(replica->ranges(), *replica->step());
  return sources;
}

StateSources sources_of(const StoredTensors& checkpoint, std::int64_t step,
                        const optim::Optimizer& like) {
  StoredTensors tensors;
  StateParts whole{step, {}};
  for (const optim::StateRange& range : ranges_of(like)) {
    tensors.push_back(find(checkpoint, range));
    whole.ranges.push_back({0, c10::multiply_integers(range.shape)});
  }
  const auto file = std::make_shared<TensorsOfFile>(std::move(tensors));
  return {{whole, [file](std::size_t tensor) { return file->values(tensor); }}, {}};
}

std::optional<Division> agree_on_division(const Ranks& ranks, std::int64_t parameters,
                                          const StateSources& sources,
                                          const optim::Optimizer& optimizer) {
  const RankHoldings mine{parameters, sources.own.parts, sources.replica.parts,
                          elements_of(ranges_of(optimizer))};
  std::vector<RankHoldings> all;
  for (const std::vector<std::int64_t>& numbers : ranks.gather_numbers(to_numbers(mine)))
    all.push_back(holdings_from_numbers(numbers));
  return plan_redistribution(all);
}

void transfer_state(const Ranks& ranks, const Division& division, const StateSources& sources,
                    optim::Optimizer& optimizer) {
  const std::vector<optim::StateRange> wanted = ranges_of(optimizer);
  const std::vector<at::Tensor> taken = pass_on(ranks, division, sources, wanted);
  StoredTensors state = stored({{kStepName, at::scalar_tensor(division.step, at::kLong)}});
  for (std::size_t i = 0; i < wanted.size(); ++i)
    state.push_back({wanted[i].name, wanted[i].values.scalar_type(), wanted[i].shape,
                     [values = taken[i], range = wanted[i].range](const at::Tensor& whole) {
                       whole.view({-1}).narrow(0, range.begin, range.elements).copy_(values);
                     }});
  optimizer.load_state(state);
}

}  // namespace accrue::train
