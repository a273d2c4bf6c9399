#include "kernels/attention/bf16_product.h"

#include <ATen/native/CPUBlas.h>

#include <array>
#include <cstdint>
#include <exception>

namespace accrue::kernels::bf16_attention {

void multiply(const Product& p, bool accumulate) {
#ifdef CPUBLAS_BRGEMM_BF16BF16F32
  const auto size = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  at::native::cpublas::brgemm(size(p.rows), size(p.columns), size(p.depth), size(p.a_stride),
                              size(p.b_stride), size(p.c_stride), accumulate,
                              reinterpret_cast<const at::BFloat16*>(p.a),
                              reinterpret_cast<const at::BFloat16*>(p.b), p.c, true);
#else
  static_cast<void>(p);
  static_cast<void>(accumulate);
#endif
}

TileScope::~TileScope() {
#ifdef CPUBLAS_BRGEMM_BF16BF16F32
  at::native::cpublas::brgemm_release(true);
#endif
}

bool multiplies() {
  constexpr std::size_t rows = 64, columns = 16, depth = 16;
  std::array<Bf16, rows * depth> a{};
  std::array<Bf16, depth * columns> pairs{};
  std::array<float, rows * columns> expected{}, actual{};
  const auto left = [](std::size_t i, std::size_t k) { return static_cast<float>((i + k) % 5); };
  const auto right = [](std::size_t k, std::size_t j) {
    return static_cast<float>((3 * k + j) % 7);
  };
  const auto rounded = [](float value) { return Bf16{at::BFloat16(value).x}; };
  for (std::size_t k = 0; k < depth; ++k) {
    for (std::size_t i = 0; i < rows; ++i) a[i * depth + k] = rounded(left(i, k));
    for (std::size_t j = 0; j < columns; ++j)
      pairs[2 * (k / 2 * columns + j) + k % 2] = rounded(right(k, j));
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j)
        expected[i * columns + j] += left(i, k) * right(k, j);
  }
  // Libtorch throws if it was built without oneDNN's micro-kernels.
  try {
    const TileScope tiles;
    multiply({.rows = rows,
              .columns = columns,
              .depth = depth,
              .a = a.data(),
              .a_stride = depth,
              .b = pairs.data(),
              .b_stride = columns,
              .c = actual.data(),
              .c_stride = columns},
             false);
  } catch (const std::exception&) {
    return false;
  }
  return actual == expected;
}

}  // namespace accrue::kernels::bf16_attention
