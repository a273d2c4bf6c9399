#include "distributed/reduce/sharding.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "accrue/core/error.h"
#include "distributed/reduce/parcels.h"

namespace accrue::distributed {
namespace {

void require_flat(const NamedParameters& trained) {
  for (const auto& [name, tensor] : trained)
    if (!tensor.is_cpu() || !tensor.is_contiguous())
      throw usage_error("divide optimizer state among ranks", "contiguous parameters on the CPU",
                        name + ", which is not", "dist.shard = \"none\"");
}

/// Numbers of the whole tensors of one dtype, which can be packed together.
std::vector<std::size_t> whole_of_dtype(const NamedParameters& trained,
                                        const std::vector<bool>& divided, at::ScalarType dtype) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < trained.size(); ++i)
    if (!divided[i] && trained[i].tensor.scalar_type() == dtype) numbers.push_back(i);
  return numbers;
}

}  // namespace

Sharding::Sharding(std::shared_ptr<Group> group, NamedParameters trained, std::vector<bool> divided,
                   std::int64_t bytes_at_once)
    : group_(std::move(group)),
      trained_(std::move(trained)),
      divided_(std::move(divided)),
      bytes_at_once_(bytes_at_once) {
  divided_.resize(trained_.size());
  require_flat(trained_);
}

void Sharding::add_up(std::vector<double>& numbers) const {
  const at::Tensor values = at::from_blob(
      numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::dtype(at::kDouble));
  group_->start_sum(values, "the norm of the gradient")->wait();
}

void Sharding::take_largest(std::vector<std::int64_t>& numbers) const {
  const at::Tensor own = at::tensor(numbers, at::kLong);
  const at::Tensor largest = group_->all_gather(own).amax(0);
  std::copy_n(largest.const_data_ptr<std::int64_t>(), numbers.size(), numbers.begin());
}

void Sharding::gather_parameters() const {
  std::vector<std::int64_t> elements;
  for (const auto& [name, tensor] : trained_) elements.push_back(tensor.numel());
  const FlatTensor flat = [this](std::size_t i) { return trained_[i].tensor.detach().view({-1}); };
  const auto mine = static_cast<std::size_t>(group_->rank());
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const std::int64_t row_bytes = bytes_at_once_ / group_->world();
    const auto row_elements = row_bytes / static_cast<std::int64_t>(c10::elementSize(dtype));
    for (const Parcel& parcel :
         make_parcels(elements, whole_of_dtype(trained_, divided_, dtype), group_->world(),
                      std::max<std::int64_t>(1, row_elements))) {
      const at::Tensor own = at::zeros({parcel.row_elements}, dtype);
      pack(parcel.rows[mine], flat, own);
      const at::Tensor rows = group_->all_gather(own);
      for (std::size_t rank = 0; rank < parcel.rows.size(); ++rank)
        if (rank != mine) unpack(parcel.rows[rank], rows[static_cast<std::int64_t>(rank)], flat);
    }
  }
  for (std::size_t i = 0; i < trained_.size(); ++i)
    if (divided_[i]) torch::autograd::impl::bump_version(trained_[i].tensor);
}

void Sharding::gather(const ElementRange& range, const at::Tensor& own,
                      const at::Tensor& whole) const {
  const at::Tensor places =
      group_->all_gather(at::tensor({range.begin, range.elements}, at::kLong));
  const std::int64_t longest = places.select(1, 1).max().item<std::int64_t>();
  const std::int64_t most = std::max<std::int64_t>(
      1, bytes_at_once_ / group_->world() / static_cast<std::int64_t>(own.element_size()));
  for (std::int64_t done = 0; done < longest; done += most) {
    const auto left = [&](std::int64_t elements) {
      return std::clamp<std::int64_t>(elements - done, 0, std::min(most, longest - done));
    };
    const at::Tensor row = at::zeros({left(longest)}, own.options());
    const std::int64_t count = left(range.elements);
    if (count > 0) row.narrow(0, 0, count).copy_(own.narrow(0, done, count));
    const at::Tensor rows = group_->gather(row, 0, "the optimizer's state for a checkpoint");
    if (!rows.defined()) continue;
    for (std::int64_t rank = 0; rank < group_->world(); ++rank) {
      const std::int64_t theirs = left(places[rank][1].item<std::int64_t>());
      if (theirs == 0) continue;
      whole.narrow(0, places[rank][0].item<std::int64_t>() + done, theirs)
          .copy_(rows[rank].narrow(0, 0, theirs));
    }
  }
}

std::int64_t Sharding::from_first(std::int64_t number, std::string_view what) const {
  const at::Tensor value = at::full({1}, number, at::kLong);
  group_->broadcast(value, 0, what);
  return value.item<std::int64_t>();
}

}  // namespace accrue::distributed
