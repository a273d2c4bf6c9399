#include "train/ranks/slice_replica.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace accrue::train {
namespace {

constexpr const char* kReplica = "the replica of the optimizer's state";

at::Tensor places_of(const std::vector<optim::StateRange>& ranges) {
  std::vector<std::int64_t> places;
  for (const optim::StateRange& range : ranges)
    places.insert(places.end(), {range.range.begin, range.range.elements});
  return at::tensor(places, at::kLong);
}

at::Tensor bytes_to_pass(const optim::StateRange& range) {
  return range.values.view({-1}).view(at::kByte);
}

}  // namespace

std::int64_t steps_taken(const optim::Optimizer& optimizer) {
  const NamedParameters state = optimizer.state();
  return std::ranges::find(state, std::string_view(kStepName), &NamedParameter::name)
      ->tensor.item<std::int64_t>();
}

SliceReplica::SliceReplica(std::shared_ptr<distributed::Group> group, const optim::Optimizer& own)
    : group_(std::move(group)), own_(own), ranges_(own.ranges()) {
  const std::int64_t before = (group_->rank() + group_->world() - 1) % group_->world();
  const at::Tensor places = group_->all_gather(places_of(ranges_))[before].contiguous();
  const auto* place = places.const_data_ptr<std::int64_t>();
  for (optim::StateRange& range : ranges_) {
    range.range = {place[0], place[1]};
    range.values = at::empty({range.range.elements}, range.values.options());
    place += 2;
  }
}

void SliceReplica::begin_update() {
  step_.reset();
  const std::int64_t world = group_->world();
  const std::int64_t next = (group_->rank() + 1) % world;
  const std::int64_t before = (group_->rank() + world - 1) % world;
  const std::vector<optim::StateRange> own = own_.ranges();
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].range.elements > 0)
      under_way_.push_back(group_->start_send(bytes_to_pass(own[i]), next, kReplica));
    if (ranges_[i].range.elements > 0)
      under_way_.push_back(group_->start_receive(bytes_to_pass(ranges_[i]), before, kReplica));
  }
}

void SliceReplica::finish_update() {
  for (const auto& work : std::exchange(under_way_, {})) work->wait();
  step_ = steps_taken(own_);
}

std::int64_t SliceReplica::bytes() const {
  std::int64_t bytes = 0;
  for (const optim::StateRange& range : ranges_)
    bytes += static_cast<std::int64_t>(range.values.nbytes());
  return bytes;
}

}  // namespace accrue::train
