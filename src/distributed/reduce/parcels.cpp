#include "distributed/reduce/parcels.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace accrue::distributed {
namespace {

/// Adds elements [done, done + count) of every rank's range.
void add(Parcel& parcel, std::size_t tensor, std::span<const ElementRange> owned, std::int64_t done,
         std::int64_t count) {
  for (std::size_t rank = 0; rank < owned.size(); ++rank) {
    const std::int64_t left = std::min(count, owned[rank].elements - done);
    if (left > 0) parcel.rows[rank].push_back({tensor, {owned[rank].begin + done, left}});
  }
}

std::int64_t elements_of(const std::vector<ParcelItem>& row) {
  return std::accumulate(
      row.begin(), row.end(), std::int64_t{0},
      [](std::int64_t sum, const ParcelItem& item) { return sum + item.range.elements; });
}

/// Calls `act(tensor's range, row's range)` for each item.
template <class Act>
void for_items(std::span<const ParcelItem> items, const FlatTensor& flat, const at::Tensor& row,
               const Act& act) {
  const at::NoGradGuard no_grad;
  std::int64_t at = 0;
  for (const auto& [tensor, range] : items) {
    act(flat(tensor).narrow(0, range.begin, range.elements), row.narrow(0, at, range.elements));
    at += range.elements;
  }
}

}  // namespace

std::vector<Parcel> make_parcels(std::span<const std::int64_t> elements,
                                 std::span<const std::size_t> numbers, std::int64_t world,
                                 std::int64_t row_elements) {
  std::vector<Parcel> parcels;
  std::int64_t room = 0;  // at least this much in every row of the last parcel
  for (const std::size_t tensor : numbers) {
    std::vector<ElementRange> owned;
    for (std::int64_t rank = 0; rank < world; ++rank)
      owned.push_back(element_range_of(elements[tensor], tensor, {rank, world}));
    const std::int64_t longest = std::ranges::max(owned, {}, &ElementRange::elements).elements;
    for (std::int64_t done = 0; done < longest;) {
      if (room == 0) {
        parcels.push_back({.rows = std::vector<std::vector<ParcelItem>>(owned.size())});
        room = row_elements;
      }
      const std::int64_t count = std::min(room, longest - done);
      add(parcels.back(), tensor, owned, done, count);
      done += count;
      room -= count;
    }
  }
  for (Parcel& parcel : parcels)
    for (const std::vector<ParcelItem>& row : parcel.rows)
      parcel.row_elements = std::max(parcel.row_elements, elements_of(row));
  return parcels;
}

void pack(std::span<const ParcelItem> items, const FlatTensor& flat, const at::Tensor& row) {
  for_items(items, flat, row,
            [](at::Tensor of_tensor, at::Tensor of_row) { of_row.copy_(of_tensor); });
}

void unpack(std::span<const ParcelItem> items, const at::Tensor& row, const FlatTensor& flat) {
  for_items(items, flat, row,
            [](at::Tensor of_tensor, at::Tensor of_row) { of_tensor.copy_(of_row); });
}

}  // namespace accrue::distributed
