#include "kernels/rows/dropout_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/mask-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

template <class T, class From, class To>
void drop_block(const DropoutMask& mask, const std::uint32_t* words, std::size_t columns,
                const To* added, const From* from, To* to) {
  const Lanes<T> d;
  const auto scale = hn::Set(d, static_cast<T>(mask.scale));
  for_each_vector(d, columns, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto scaled = hn::Mul(load(d, from + i, count), scale);
    auto result = hn::IfThenElseZero(kept(d, words + i, mask.last_dropped), scaled);
    if (added != nullptr) result = hn::Add(load(d, added + i, count), result);
    store(result, d, to + i, count);
  });
}

template <class T, class From, class To>
void drop_of(const DroppedRows& task) {
  std::uint32_t words[mask_block];
  const auto* added = static_cast<const To*>(task.added);
  const auto* from = static_cast<const From*>(task.from);
  auto* to = static_cast<To*>(task.to);
  for (std::size_t row = 0; row < task.rows; ++row)
    for (std::size_t column = 0; column < task.columns; column += mask_block) {
      const std::size_t count = std::min(mask_block, task.columns - column);
      const std::size_t offset = row * task.columns + column;
      draw_block(task.mask, task.first_row + row, column / mask_block, words);
      drop_block<T, From, To>(task.mask, words, count, added ? added + offset : nullptr,
                              from + offset, to + offset);
    }
}

void drop(const DroppedRows& task) {
  if (task.from_type == Element::fp64) return drop_of<double, double, double>(task);
  const bool from_bf16 = task.from_type == Element::bf16, to_bf16 = task.to_type == Element::bf16;
  if (from_bf16 && to_bf16) return drop_of<float, Bf16, Bf16>(task);
  if (from_bf16) return drop_of<float, Bf16, float>(task);
  if (to_bf16) return drop_of<float, float, Bf16>(task);
  drop_of<float, float, float>(task);
}

void add(const float* x, const Bf16* y, float* out, std::size_t size) {
  const Lanes<float> d;
  for_each_vector(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
    store(hn::Add(load(d, x + i, count), load(d, y + i, count)), d, out + i, count);
  });
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(drop);
HWY_EXPORT(add);

void drop(const DroppedRows& task) { HWY_DYNAMIC_DISPATCH(drop)(task); }

void add(const float* x, const Bf16* y, float* out, std::size_t size) {
  HWY_DYNAMIC_DISPATCH(add)(x, y, out, size);
}

}  // namespace accrue::kernels::rows
#endif
