#include "kernels/generic/stochastic_rounding.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "kernels/generic/philox.h"

namespace accrue::kernels::generic {
namespace {

constexpr auto stream_block = static_cast<std::int64_t>(kRoundingBlock);
constexpr std::int64_t stream_lanes = 16;  ///< elements of a block that share one half of a word
/// Random bits temporarily take some 20 bytes per element.
constexpr std::int64_t elements_at_once = std::int64_t{1} << 21;

/// The 16 random bits of elements [first, first + count) (core/rounding_stream.h), int32.
at::Tensor random_halves(const RoundingStream& stream, std::int64_t first, std::int64_t count,
                         at::Device device) {
  const std::int64_t blocks = (count + stream_block - 1) / stream_block,
                     begin = first / stream_block * stream_lanes;
  const at::TensorOptions whole = at::TensorOptions(at::kLong).device(device);
  const at::Tensor counter = at::arange(begin, begin + blocks * stream_lanes, whole);
  const auto constant = [&](std::uint32_t word) {
    return at::full({1}, std::int64_t{word}, whole);
  };
  const PhiloxWords words =
      philox({counter.bitwise_and(0xFFFFFFFF), counter.bitwise_right_shift(32),
              constant(stream.tweak[0]), constant(stream.tweak[1])},
             constant(stream.key[0]), constant(stream.key[1]));
  std::vector<at::Tensor> halves;
  for (const at::Tensor& word : words) {
    halves.push_back(word.bitwise_and(0xFFFF).view({blocks, 1, stream_lanes}));
    halves.push_back(word.bitwise_right_shift(16).view({blocks, 1, stream_lanes}));
  }
  return at::cat(halves, 1).view({-1}).narrow(0, 0, count).to(at::kInt);
}

}  // namespace

at::Tensor rounded_stochastically(const at::Tensor& values, const RoundingStream& stream,
                                  std::int64_t first) {
  const at::Tensor rounded = at::empty(values.sizes(), values.options().dtype(at::kBFloat16));
  const at::Tensor from = values.view({-1}), to = rounded.view({-1});
  for (std::int64_t begin = 0; begin < from.numel(); begin += elements_at_once) {
    const std::int64_t count = std::min(elements_at_once, from.numel() - begin);
    const at::Tensor bits = from.narrow(0, begin, count).view(at::kInt) +
                            random_halves(stream, first + begin, count, values.device());
    to.narrow(0, begin, count)
        .copy_(bits.bitwise_right_shift(16).to(at::kShort).view(at::kBFloat16));
  }
  return rounded;
}

}  // namespace accrue::kernels::generic
