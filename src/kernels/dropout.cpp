#include "accrue/kernels/dropout.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/core/rng.h"
#include "aten_element.h"
#include "first_order.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::uint32_t low(std::int64_t word) { return static_cast<std::uint32_t>(word); }
constexpr std::uint32_t high(std::int64_t word) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(word) >> 32);
}

/// What the mask of one sample at one site is drawn from. Seed, window, sample, site and position
/// together are longer than Philox's key and counter, so the first three name a key that Philox
/// itself makes.
struct SampleStream {
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 2> tweak;

  SampleStream(std::int64_t seed, std::int64_t window, std::int64_t site, std::int64_t sample) {
    const auto use =
        philox({low(window), high(window), low(site), high(site)}, {low(seed), high(seed)});
    const auto own = philox({low(sample), high(sample), use[2], use[3]}, {use[0], use[1]});
    key = {own[0], own[1]};
    tweak = {own[2], own[3]};
  }

  /// The words of channels [4 * group, 4 * group + 4) at `position`.
  std::array<std::uint32_t, 4> words(std::uint32_t position, std::uint32_t group) const {
    return philox({position, group, tweak[0], tweak[1]}, key);
  }
};

struct Plan {
  double probability;
  std::int64_t seed, window, site;
  std::vector<std::int64_t> sample_ids;
};

template <class T, class Scale>
void drop_row(const SampleStream& stream, std::uint32_t position, std::uint64_t threshold,
              Scale scale, const T* from, T* to, std::int64_t channels) {
  for (std::int64_t channel = 0; channel < channels; channel += 4) {
    const auto words = stream.words(position, static_cast<std::uint32_t>(channel / 4));
    const std::int64_t count = std::min<std::int64_t>(4, channels - channel);
    for (std::int64_t i = 0; i < count; ++i)
      to[channel + i] = words[static_cast<std::size_t>(i)] >= threshold
                            ? static_cast<T>(static_cast<Scale>(from[channel + i]) * scale)
                            : T(0);
  }
}

/// x times the mask and 1 / (1 - p): the same map forwards and backwards.
at::Tensor apply_mask(const at::Tensor& source, const Plan& plan) {
  const at::Tensor x = source.contiguous();
  const std::int64_t channels = x.size(-1), positions = x.dim() == 3 ? x.size(1) : 1;
  at::Tensor out = at::empty(x.sizes(), x.options());
  std::vector<SampleStream> streams;
  for (const std::int64_t sample : plan.sample_ids)
    streams.emplace_back(plan.seed, plan.window, plan.site, sample);
  // A word w stands for the uniform value w / 2^32, kept where that is at least the probability.
  const auto threshold = static_cast<std::uint64_t>(std::ceil(plan.probability * 0x1p32));
  const double scale = 1 / (1 - plan.probability);
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "dropout", [&] {
    const scalar_t* from = x.const_data_ptr<scalar_t>();
    scalar_t* to = out.mutable_data_ptr<scalar_t>();
    const std::int64_t grain =
        std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, channels));
    at::parallel_for(0, x.size(0) * positions, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        drop_row(streams[static_cast<std::size_t>(row / positions)],
                 static_cast<std::uint32_t>(row % positions), threshold,
                 static_cast<at::opmath_type<scalar_t>>(scale), from + row * channels,
                 to + row * channels, channels);
    });
  });
  return out;
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Plan& plan) {
    context->saved_data["probability"] = plan.probability;
    context->saved_data["seed"] = plan.seed;
    context->saved_data["window"] = plan.window;
    context->saved_data["site"] = plan.site;
    context->saved_data["sample_ids"] = plan.sample_ids;
    return apply_mask(x, plan);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("dropout");
    auto& saved = context->saved_data;
    const Plan plan{saved["probability"].toDouble(), saved["seed"].toInt(), saved["window"].toInt(),
                    saved["site"].toInt(), saved["sample_ids"].toIntVector()};
    return {apply_mask(grads[0], plan), {}};
  }
};

void expect_probability(double probability) {
  if (!(probability >= 0 && probability < 1))
    throw usage_error("dropout", "a probability in [0, 1)", std::to_string(probability),
                      "a value such as 0.1");
}

void expect_rows(const at::Tensor& x, const ForwardContext& context) {
  expect_on_cpu(x, "dropout");
  if (x.dim() != 2 && x.dim() != 3)
    throw usage_error("dropout", "x [B, T, C] or [B, C]", std::to_string(x.dim()) + " dimensions",
                      "reshaping it to one row per sample");
  if (static_cast<std::int64_t>(context.sample_ids.size()) != x.size(0))
    throw usage_error("dropout", std::to_string(x.size(0)) + " sample ids, one per row",
                      std::to_string(context.sample_ids.size()),
                      "filling ForwardContext::sample_ids from the micro-batch");
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, const ForwardContext& context,
                   std::int64_t site) {
  expect_probability(probability);
  if (!context.training || probability == 0) return x;
  expect_rows(x, context);
  return Dropout::apply(x, Plan{probability, static_cast<std::int64_t>(context.seed),
                                context.window, site, context.sample_ids});
}

}  // namespace accrue::kernels
