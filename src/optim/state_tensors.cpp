#include "optim/state_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "optim/dynamic_code.h"

namespace accrue::optim::state_tensors {
namespace {

constexpr auto block = static_cast<std::int64_t>(kStateBlock);
/// An encoding temporarily takes some 30 bytes per element.
constexpr std::int64_t elements_at_once = std::int64_t{1} << 21;
static_assert(elements_at_once % block == 0);

/// Calls `visit(begin, count)` for ranges of blocks; the last range may be short.
template <class Visit>
void for_chunks(std::int64_t elements, const Visit& visit) {
  for (std::int64_t begin = 0; begin < elements; begin += elements_at_once)
    visit(begin, std::min(elements_at_once, elements - begin));
}

/// A range as blocks [n, 256], with the last one padded with zeros.
at::Tensor blocks_of(const at::Tensor& range) {
  const std::int64_t missing = (block - range.numel() % block) % block;
  const at::Tensor whole = missing == 0 ? range : at::constant_pad_nd(range, {0, missing});
  return whole.view({-1, block});
}

/// A number as a tensor on `like`'s device: ATen multiplies by a host's number instead of dividing.
at::Tensor number(double value, const at::Tensor& like) {
  return at::full({}, value, like.options());
}

/// The interval of magnitudes in [0, 1]: the code, counted from 1.
at::Tensor interval(const at::Tensor& magnitude, float first) {
  at::Tensor to_decade = at::full_like(magnitude, 1e6F),
             intervals = at::full_like(magnitude, first);
  float lower = 1e-6F, factor = 1e5F, many = 2 * first;
  for (int decade = 1; decade < kDecades; ++decade, lower *= 10, factor /= 10, many *= 2) {
    const at::Tensor below = magnitude.lt(lower);
    to_decade = at::where(below, to_decade, number(factor, magnitude));
    intervals = at::where(below, intervals, number(many, magnitude));
  }
  const at::Tensor place =
      magnitude.mul(to_decade).sub_(0.1F).mul_(intervals.mul(1 / 0.9F)).floor_().clamp_min_(0);
  return intervals.sub(first).add_(at::minimum(place, intervals.sub(1))).add_(1);
}

at::Tensor signed_codes(const at::Tensor& values, const at::Tensor& factors) {
  const at::Tensor magnitude = values.abs().mul_(factors);
  // Below half of the least code's value, zero is nearer.
  const at::Tensor counts = magnitude.ge(kSignedValues[kSignedZero + 1] / 2);
  const at::Tensor code = interval(magnitude, 1).masked_fill_(counts.logical_not(), 0);
  return at::copysign(code, values).add_(static_cast<double>(kSignedZero));
}

at::Tensor unsigned_codes(const at::Tensor& values, const at::Tensor& factors) {
  return interval(values.mul(factors), 2).masked_fill_(values.gt(0).logical_not(), 0);
}

/// `codes_of(blocks, factors)` gives the codes of blocks whose largest magnitude becomes `largest`.
template <class CodesOf>
void encode(const at::Tensor& from, const at::Tensor& codes, const at::Tensor& scales,
            float largest_code, const CodesOf& codes_of) {
  const at::Tensor values = from.contiguous().view({-1}), to = codes.view({-1});
  for_chunks(values.numel(), [&](std::int64_t begin, std::int64_t count) {
    const at::Tensor blocks = blocks_of(values.narrow(0, begin, count));
    const at::Tensor largest = blocks.abs().amax(1, /*keepdim=*/true);
    const at::Tensor is_zero = largest.lt(std::numeric_limits<float>::min());
    const at::Tensor top = number(largest_code, largest);
    scales.narrow(0, begin / block, blocks.size(0))
        .copy_(largest.div(top).masked_fill_(is_zero, 0).view({-1}));
    const at::Tensor factors = top.div(largest).masked_fill_(is_zero, 0);
    to.narrow(0, begin, count).copy_(codes_of(blocks, factors).view({-1}).narrow(0, 0, count));
  });
}

}  // namespace

at::Tensor decode_codes(const at::Tensor& codes, const at::Tensor& scales,
                        const std::array<float, 256>& values) {
  const at::Tensor table =
      at::tensor(at::ArrayRef<float>(values.data(), values.size()), at::kFloat).to(codes.device());
  const at::Tensor decoded = at::empty(codes.sizes(), scales.options());
  const at::Tensor from = codes.view({-1}), to = decoded.view({-1});
  for_chunks(from.numel(), [&](std::int64_t begin, std::int64_t count) {
    const at::Tensor places = from.narrow(0, begin, count).to(at::kInt);
    const at::Tensor blocks = blocks_of(table.index_select(0, places));
    const at::Tensor of_blocks = scales.narrow(0, begin / block, blocks.size(0)).view({-1, 1});
    to.narrow(0, begin, count).copy_(blocks.mul(of_blocks).view({-1}).narrow(0, 0, count));
  });
  return decoded;
}

void encode_signed(const at::Tensor& from, const at::Tensor& codes, const at::Tensor& scales) {
  encode(from, codes, scales, kLargestSigned, signed_codes);
}

void encode_unsigned(const at::Tensor& from, const at::Tensor& codes, const at::Tensor& scales) {
  encode(from, codes, scales, kLargestUnsigned, unsigned_codes);
}

}  // namespace accrue::optim::state_tensors
