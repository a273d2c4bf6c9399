#include "distributed/reduce/parcels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

namespace accrue::distributed {
namespace {

const std::vector<std::int64_t> kElements{5000, 3, 2048, 12'345, 1, 40};

std::vector<std::size_t> all_numbers() {
  std::vector<std::size_t> numbers(kElements.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(Parcels, HaveEachElementOnceInItsOwnersRow) {
  for (const std::int64_t world : {1, 2, 3, 5})
    for (const std::int64_t row_elements : {1'000'000, 4000, 700}) {
      std::vector<at::Tensor> owner;
      for (const std::int64_t elements : kElements) owner.push_back(at::full({elements}, -1));
      for (const Parcel& parcel : make_parcels(kElements, all_numbers(), world, row_elements)) {
        EXPECT_LE(parcel.row_elements, row_elements);
        for (std::size_t rank = 0; rank < parcel.rows.size(); ++rank) {
          std::int64_t in_row = 0;
          for (const auto& [tensor, range] : parcel.rows[rank]) {
            in_row += range.elements;
            owner[tensor]
                .narrow(0, range.begin, range.elements)
                .add_(static_cast<std::int64_t>(rank) + 1);
          }
          EXPECT_LE(in_row, parcel.row_elements);
        }
      }
      for (std::size_t i = 0; i < kElements.size(); ++i)
        for (std::int64_t rank = 0; rank < world; ++rank) {
          const ElementRange own = element_range_of(kElements[i], i, {rank, world});
          EXPECT_TRUE(owner[i].narrow(0, own.begin, own.elements).eq(rank).all().item<bool>())
              << "tensor " << i << " of rank " << rank;
        }
    }
}

TEST(Parcels, GoIntoARowAndBack) {
  std::vector<at::Tensor> from, to;
  for (const std::int64_t elements : kElements) {
    from.push_back(at::arange(elements) + 1);
    to.push_back(at::zeros_like(from.back()));
  }
  for (const Parcel& parcel : make_parcels(kElements, all_numbers(), 2, 900))
    for (const std::vector<ParcelItem>& items : parcel.rows) {
      const at::Tensor row = at::empty({parcel.row_elements}, at::kLong);
      pack(
          items, [&](std::size_t i) { return from[i]; }, row);
      unpack(items, row, [&](std::size_t i) { return to[i]; });
    }
  for (std::size_t i = 0; i < from.size(); ++i) EXPECT_TRUE(at::equal(to[i], from[i])) << i;
}

}  // namespace
}  // namespace accrue::distributed
