#include "distributed/schedule/stage_link.h"

#include <ATen/ATen.h>

#include <string>

#include "accrue/core/error.h"

namespace accrue::distributed {
namespace {

/// Values of a header, in int64: the number of tensors, then each one's dtype, dimensions and
/// sizes.
constexpr std::int64_t kHeader = 64;
constexpr std::int64_t kUndefined = -1;
/// Lists that may be in transit to a rank when the next one is sent. The schedule needs one
/// (pipeline_schedule); the second lets a stage continue while its neighbour is busy.
constexpr std::size_t kOnTheirWay = 2;

at::Tensor header_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::int64_t> values{static_cast<std::int64_t>(tensors.size())};
  for (const at::Tensor& tensor : tensors) {
    values.push_back(tensor.defined() ? static_cast<std::int64_t>(tensor.scalar_type())
                                      : kUndefined);
    if (!tensor.defined()) continue;
    values.push_back(tensor.dim());
    values.insert(values.end(), tensor.sizes().begin(), tensor.sizes().end());
  }
  if (values.size() > kHeader)
    throw usage_error("pass activations to the next stage",
                      "tensors whose shapes fit " + std::to_string(kHeader) + " numbers",
                      std::to_string(values.size()), "fewer tensors between two segments");
  values.resize(kHeader);
  return at::tensor(values, at::kLong);
}

std::vector<at::Tensor> tensors_for(const at::Tensor& header) {
  const std::int64_t* next = header.const_data_ptr<std::int64_t>();
  std::vector<at::Tensor> tensors(static_cast<std::size_t>(*next++));
  for (at::Tensor& tensor : tensors) {
    const std::int64_t dtype = *next++;
    if (dtype == kUndefined) continue;
    const std::int64_t dimensions = *next++;
    tensor =
        at::empty({next, static_cast<std::size_t>(dimensions)}, static_cast<at::ScalarType>(dtype));
    next += dimensions;
  }
  return tensors;
}

bool travels(const at::Tensor& tensor) { return tensor.defined() && tensor.numel() > 0; }

at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

}  // namespace

void StageLink::wait_for(const Parcel& parcel) {
  for (const std::unique_ptr<Work>& work : parcel) work->wait();
}

void StageLink::send(std::int64_t to, const std::vector<at::Tensor>& tensors,
                     std::string_view what) {
  const at::Tensor header = header_of(tensors);
  std::deque<Parcel>& before = sent_[to];
  while (before.size() >= kOnTheirWay) {
    wait_for(before.front());
    before.pop_front();
  }
  Parcel& parcel = before.emplace_back();
  parcel.push_back(group_->start_send(header, to, what));
  for (const at::Tensor& tensor : tensors)
    if (travels(tensor))
      parcel.push_back(group_->start_send(
          bytes_of(tensor.detach().clone(at::MemoryFormat::Contiguous)), to, what));
}

std::vector<at::Tensor> StageLink::receive(std::int64_t from, std::string_view what) {
  const at::Tensor header = at::empty({kHeader}, at::kLong);
  group_->start_receive(header, from, what)->wait();
  std::vector<at::Tensor> tensors = tensors_for(header);
  for (const at::Tensor& tensor : tensors)
    if (travels(tensor)) group_->start_receive(bytes_of(tensor), from, what)->wait();
  return tensors;
}

void StageLink::finish() {
  for (auto& [to, parcels] : sent_)
    for (; !parcels.empty(); parcels.pop_front()) wait_for(parcels.front());
}

}  // namespace accrue::distributed
