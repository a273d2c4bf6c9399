#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

/// oneDNN's matmul in plain C++: torch ships other oneDNN headers, so no file sees both.
namespace accrue::kernels::onednn {

inline constexpr std::size_t max_dimensions = 4;
using Extents = std::array<std::int64_t, max_dimensions>;

enum class Type : std::uint8_t { fp32, bf16 };

/// A matrix or a batch of matrices; only the first `Product::dimensions` extents count. Strides in
/// elements; one of the last two is 1, and none is 0.
struct Operand {
  Type type = Type::fp32;
  Extents sizes{}, strides{};
  bool operator==(const Operand&) const = default;
};

/// out (+)= a · b (+ bias[N]). No size is 0; out's last stride is 1.
struct Product {
  std::size_t dimensions = 2;
  Operand a, b, out;
  bool accumulate = false, has_bias = false;
  Type bias_type = Type::fp32;
  bool packed_b = false;  ///< b is a result of `pack`: its strides do not count
  bool operator==(const Product&) const = default;
};

/// Computes the product, or returns false if oneDNN has no fast implementation of it. Throws an
/// Error if oneDNN fails. Thread-safe.
bool multiply(const Product& product, const void* a, const void* b, const void* bias, void* out);

/// The bytes of a packed b [K, N] for products with `a` of b's type; 0 if such products read a
/// plain b equally fast, or oneDNN has no such product. A pure function of its arguments on a
/// machine, so that a product's bits do not depend on which one came first.
std::size_t packed_bytes(Type type, std::int64_t k, std::int64_t n);

/// These convert `b`, of 2 dimensions and any strides that a product supports, to the layout that
/// products read fastest, and back. packed_bytes() must not be 0.
void pack(const Operand& b, const void* from, void* packed);
void unpack(const Operand& b, const void* packed, void* to);

/// Whether the processor has instructions for products of bf16 that oneDNN uses.
bool multiplies_bf16();

/// "oneDNN 3.2.0 (avx512_core_bf16)"; empty if accrue was built without it.
std::string description();

}  // namespace accrue::kernels::onednn
