#include "kernels/plain/plain_mask.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/rng.h"
#include "kernels/grain.h"

namespace accrue::kernels {
namespace {

constexpr std::int64_t words = 4;
constexpr auto block = static_cast<std::int64_t>(mask_block);
constexpr std::int64_t counters = block / words;  ///< of Philox in a block of columns

/// Word (row, column) as kernels/mask.h defines it.
template <class T>
void fill_row(const DropoutMask& mask, std::int64_t row, std::int64_t columns, T* out) {
  const auto scale = static_cast<T>(mask.scale);
  for (std::int64_t first = 0; first < columns; first += block)
    for (std::int64_t i = 0; i < counters; ++i) {
      const auto drawn = philox(
          {static_cast<std::uint32_t>(row),
           static_cast<std::uint32_t>(first / block * counters + i), mask.tweak[0], mask.tweak[1]},
          mask.key);
      for (std::int64_t w = 0; w < words; ++w) {
        const std::int64_t column = first + counters * w + i;
        if (column < columns)
          out[column] = drawn[static_cast<std::size_t>(w)] > mask.last_dropped ? scale : T{0};
      }
    }
}

template <class T>
void fill(const DropoutMask& mask, at::Tensor& out) {
  const std::int64_t columns = out.size(1);
  T* const values = out.mutable_data_ptr<T>();
  at::parallel_for(0, out.size(0), grain_of(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      fill_row(mask, row, columns, values + row * columns);
  });
}

}  // namespace

at::Tensor plain_mask(const DropoutMask& mask, std::int64_t rows, std::int64_t columns,
                      at::ScalarType dtype) {
  at::Tensor out = at::empty({rows, columns}, at::TensorOptions(dtype));
  dtype == at::kDouble ? fill<double>(mask, out) : fill<float>(mask, out);
  return out;
}

}  // namespace accrue::kernels
