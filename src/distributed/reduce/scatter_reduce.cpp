#include "distributed/reduce/scatter_reduce.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace accrue::distributed {
namespace {

/// How many parcels are in transit: one travels while another is packed or added up.
constexpr std::size_t kMostUnderWay = 2;

}  // namespace

ScatterReduce::ScatterReduce(Group& group, const accum::GradientBuffer& buffer,
                             std::int64_t bytes_at_once)
    : group_(group), buffer_(buffer), bytes_at_once_(bytes_at_once) {
  for (const auto& entry : buffer.entries()) elements_.push_back(entry.slot->main.numel());
}

at::Tensor ScatterReduce::flat(std::size_t slot) const {
  return buffer_.entries()[slot].slot->main.view({-1});
}

void ScatterReduce::push(std::span<const std::size_t> slots) {
  const at::ScalarType dtype = flat(slots.front()).scalar_type();
  const std::int64_t row_elements = std::max<std::int64_t>(
      1, bytes_at_once_ / group_.world() / static_cast<std::int64_t>(c10::elementSize(dtype)));
  for (Parcel& parcel : make_parcels(elements_, slots, group_.world(), row_elements))
    waiting_.push_back({std::move(parcel), dtype});
}

void ScatterReduce::send_next() {
  Sent next{.parcel = std::move(waiting_.front().parcel)};
  next.rows = at::empty({group_.world(), next.parcel.row_elements}, waiting_.front().dtype);
  waiting_.pop_front();
  next.received = at::empty_like(next.rows);
  for (std::size_t rank = 0; rank < next.parcel.rows.size(); ++rank)
    pack(
        next.parcel.rows[rank], [this](std::size_t slot) { return flat(slot); },
        next.rows[static_cast<std::int64_t>(rank)]);
  next.work = group_.start_all_to_all(next.rows, next.received, "the sum of gradients");
  sent_.push_back(std::move(next));
}

void ScatterReduce::finish_oldest() {
  const Sent first = std::move(sent_.front());
  sent_.pop_front();
  first.work->wait();
  unpack(first.parcel.rows[static_cast<std::size_t>(group_.rank())], add_in_order(first.received),
         [this](std::size_t slot) { return flat(slot); });
}

void ScatterReduce::advance() {
  while (!sent_.empty() && sent_.front().work->is_done()) finish_oldest();
  while (!waiting_.empty() && sent_.size() < kMostUnderWay) send_next();
}

void ScatterReduce::finish() {
  std::exception_ptr error;
  while (!is_idle()) {
    try {
      while (!waiting_.empty() && sent_.size() < kMostUnderWay) send_next();
      finish_oldest();
    } catch (...) {
      if (!error) error = std::current_exception();
      waiting_.clear();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace accrue::distributed
