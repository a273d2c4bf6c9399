#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "accrue/accum/window.h"
#include "accum/problem.h"
#include "support/tolerance.h"

namespace accrue::testing {

using Ids = std::vector<std::int64_t>;

/// A window over a problem's parameters, with micro-batches named by their samples.
struct WindowFixture {
  explicit WindowFixture(at::ScalarType dtype = at::kFloat)
      : problem(make_problem(7, dtype)),
        buffer(std::make_shared<accum::GradientBuffer>(problem.parameters)),
        window(buffer) {}

  void add(const Ids& samples) {
    window.begin({window.ledger().window, samples, 0});
    const Loss loss = problem.loss(samples);
    torch::autograd::backward({loss.sum});
    window.commit(loss.sum.item<double>(), loss.weight);
  }
  /// Contributes and then fails, after the gradients have been added.
  void add_half_way(const Ids& samples) {
    window.begin({99, samples, 0});
    torch::autograd::backward({problem.loss(samples).sum});
    window.abort(MicroStatus::lost, "out of memory");
  }
  Loss run_again(const MicroRef& micro) {
    const Loss loss = problem.loss(micro.sample_ids);
    torch::autograd::backward({loss.sum});
    return loss;
  }
  std::vector<at::Tensor> sums() const {
    std::vector<at::Tensor> result;
    for (const auto& entry : buffer->entries()) result.push_back(entry.slot->main.clone());
    return result;
  }
  const at::Tensor& parameter(std::size_t i) const { return problem.parameters[i].tensor; }
  void expect_mean_gradient_of_everything() {
    std::optional<accum::MeanGradient> gradient = window.close();
    ASSERT_TRUE(gradient);
    gradient->materialize();
    const auto expected = problem.reference();
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(close(sums()[i], expected[i], parameter(i).scalar_type(), problem.rows));
  }

  Problem problem;
  std::shared_ptr<accum::GradientBuffer> buffer;
  accum::Window window;
};

inline const Ids kFirst{0, 1, 2, 3}, kSecond{4, 5}, kThird{6, 7, 8, 9, 10, 11};

}  // namespace accrue::testing
