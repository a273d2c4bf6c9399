#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "accrue/core/rank_slice.h"

namespace accrue::distributed {

/// A range of one of several tensors.
struct ParcelItem {
  std::size_t tensor = 0;
  ElementRange range;
  bool operator==(const ParcelItem&) const = default;
};

/// One exchange for tensors of which ranks own ranges: a row for each rank with some of its ranges,
/// all rows of one length.
struct Parcel {
  std::vector<std::vector<ParcelItem>> rows;  ///< by owner
  std::int64_t row_elements = 0;              ///< the longest row's
};

/// Divides the tensors `numbers`, tensor i having `elements[i]` elements, of which each of `world`
/// ranks owns element_range_of(elements[i], i, rank), into parcels of rows of at most
/// `row_elements`. Each element is in one of them.
std::vector<Parcel> make_parcels(std::span<const std::int64_t> elements,
                                 std::span<const std::size_t> numbers, std::int64_t world,
                                 std::int64_t row_elements);

/// The one-dimensional contiguous form of a tensor, by number.
using FlatTensor = std::function<at::Tensor(std::size_t tensor)>;

/// These copy a row's items from the tensors, one after the other, or back. The rest of `row` after
/// the last item is left alone.
void pack(std::span<const ParcelItem> items, const FlatTensor& flat, const at::Tensor& row);
void unpack(std::span<const ParcelItem> items, const at::Tensor& row, const FlatTensor& flat);

}  // namespace accrue::distributed
