#include "kernels/generic/philox.h"

#include <ATen/ATen.h>

namespace accrue::kernels::generic {
namespace {

constexpr std::int64_t word_mask = 0xFFFFFFFF;
constexpr int rounds = 10;
/// Multipliers and increments of the key of Philox4x32 (Salmon et al., SC11, table 2).
constexpr std::int64_t multiplier_0 = 0xD2511F53, multiplier_1 = 0xCD9E8D57;
constexpr std::int64_t weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;

/// The two words of a product of 32-bit words. Multiplication of int64 keeps the low 64 bits, and
/// the sign bits of the shift are masked.
struct Product {
  at::Tensor high, low;
};
Product product(const at::Tensor& word, std::int64_t multiplier) {
  const at::Tensor wide = word * multiplier;
  return {.high = wide.bitwise_right_shift(32).bitwise_and_(word_mask),
          .low = wide.bitwise_and(word_mask)};
}

}  // namespace

PhiloxWords philox(PhiloxWords counter, at::Tensor key_0, at::Tensor key_1) {
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) {
      key_0 = (key_0 + weyl_0).bitwise_and_(word_mask);
      key_1 = (key_1 + weyl_1).bitwise_and_(word_mask);
    }
    Product first = product(counter[0], multiplier_0);
    Product second = product(counter[2], multiplier_1);
    counter = {second.high.bitwise_xor(counter[1]).bitwise_xor(key_0), second.low,
               first.high.bitwise_xor(counter[3]).bitwise_xor(key_1), first.low};
  }
  return counter;
}

}  // namespace accrue::kernels::generic
