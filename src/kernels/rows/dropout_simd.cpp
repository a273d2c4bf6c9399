#include "kernels/rows/dropout_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/mask-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

template <class T, class Stored>
void drop_block(const DropoutMask& mask, const std::uint32_t* words, std::size_t columns,
                const Stored* from, Stored* to) {
  const Lanes<T> d;
  const auto scale = hn::Set(d, static_cast<T>(mask.scale));
  for_each_vector(d, columns, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto scaled = hn::Mul(load(d, from + i, count), scale);
    store(hn::IfThenElseZero(kept(d, words + i, mask.last_dropped), scaled), d, to + i, count);
  });
}

template <class T, class Stored>
void drop_of(const DroppedRows& task) {
  std::uint32_t words[mask_block];
  const auto* from = static_cast<const Stored*>(task.from);
  auto* to = static_cast<Stored*>(task.to);
  for (std::size_t row = 0; row < task.rows; ++row)
    for (std::size_t column = 0; column < task.columns; column += mask_block) {
      const std::size_t count = std::min(mask_block, task.columns - column);
      const std::size_t offset = row * task.columns + column;
      draw_block(task.mask, task.first_row + row, column / mask_block, words);
      drop_block<T, Stored>(task.mask, words, count, from + offset, to + offset);
    }
}

void drop(const DroppedRows& task) {
  if (task.type == Element::fp32) return drop_of<float, float>(task);
  if (task.type == Element::bf16) return drop_of<float, Bf16>(task);
  drop_of<double, double>(task);
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(drop);

void drop(const DroppedRows& task) { HWY_DYNAMIC_DISPATCH(drop)(task); }

}  // namespace accrue::kernels::rows
#endif
