#pragma once

#include <ATen/ATen.h>

#include <array>
#include <memory>
#include <vector>

#include "accrue/accum/window.h"
#include "accum/problem.h"

namespace accrue::testing {

using accum::Accumulation;

inline constexpr std::array kStaged{Accumulation::fp64, Accumulation::bf16,
                                    Accumulation::bf16_kahan, Accumulation::bf16_stochastic,
                                    Accumulation::fixed};

/// One parameter and a window over it that gets contributions as from a kernel.
struct StagedWindow {
  explicit StagedWindow(Accumulation accumulation, at::IntArrayRef shape,
                        at::ScalarType dtype = at::kFloat, std::uint64_t rounding_seed = 1)
      : parameter(at::zeros(shape, dtype).requires_grad_(true)),
        buffer(std::make_shared<accum::GradientBuffer>(NamedParameters{{"w", parameter}},
                                                       accumulation, rounding_seed)),
        window(buffer) {}

  /// One micro-batch of weight 1. The window may run it again by its sample id.
  MicroStatus add(const at::Tensor& contribution) {
    window.begin(
        {static_cast<std::int64_t>(given.size()), {static_cast<std::int64_t>(given.size())}, 1});
    given.push_back(contribution);
    contribute(contribution);
    return window.commit(0, 1);
  }
  void contribute(const at::Tensor& contribution) {
    auto to = slot().contribute();
    to.add ? to.into.add_(contribution) : to.into.copy_(contribution);
    slot().done();
  }
  void allow_replay() {
    window.set_replay([this](const MicroRef& micro) {
      contribute(given[static_cast<std::size_t>(micro.sample_ids[0])]);
      return Loss{at::zeros({}), 1};
    });
  }
  kernels::GradSlot& slot() const { return *buffer->entries()[0].slot; }
  /// The sum so far, in double.
  at::Tensor sum() const {
    const std::int64_t count = parameter.numel();
    at::Tensor values = at::empty({count}, at::kDouble);
    source_of(buffer->entries()[0]).read(0, count, values.mutable_data_ptr<double>());
    return values.view(parameter.sizes());
  }
  at::Tensor saved() const { return accum::GradientBuffer::saved_sum(buffer->entries()[0]); }

  at::Tensor parameter;
  std::shared_ptr<accum::GradientBuffer> buffer;
  accum::Window window;
  std::vector<at::Tensor> given;
};

}  // namespace accrue::testing
