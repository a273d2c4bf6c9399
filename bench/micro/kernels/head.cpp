// The head and the loss of a micro-batch, forward and backward.

#include <ATen/ATen.h>

#include "accrue/kernels/cross_entropy.h"
#include "comparison.h"
#include "differentiated.h"

namespace accrue::bench {
namespace {

constexpr double weight_deviation = 0.02;

Comparison linear_cross_entropy(const Workload& workload, at::ScalarType dtype) {
  const at::Tensor hidden = random({workload.tokens(), workload.width}, dtype).requires_grad_(true);
  const at::Tensor targets = at::randint(workload.vocabulary, {workload.tokens()}, at::kLong);
  const Parameter weight(
      random({workload.vocabulary, workload.width}, at::kFloat, weight_deviation));
  const PlainParameter plain(weight.tensor, dtype);
  const auto copy = std::make_shared<kernels::PreparedWeight>();
  const auto products = 3.0 * 2 * static_cast<double>(hidden.numel());
  return {.accrue =
              [=] {
                const Loss loss =
                    kernels::linear_cross_entropy(hidden, weight.tensor, targets, *copy);
                const auto grads = torch::autograd::grad({loss.sum}, {hidden, weight.tensor}, {},
                                                         {}, false, /*allow_unused=*/true);
                return std::vector{grads[0], weight.slot->main};
              },
          .aten =
              [=] {
                const at::Tensor logits = at::linear(hidden, plain.tensor);
                const at::Tensor sum =
                    at::cross_entropy_loss(logits.to(at::kFloat), targets, {}, at::Reduction::Sum);
                const auto grads = torch::autograd::grad({sum}, {hidden, plain.tensor});
                at::Tensor main = plain.main;
                return std::vector{grads[0], main.add_(grads[1])};
              },
          .flops = products * static_cast<double>(workload.vocabulary),
          .bytes = 2 * bytes_of({hidden}) + bytes_of({targets, plain.tensor}) +
                   2 * bytes_of({plain.main}),
          .products = dtype};
}

}  // namespace

void add_head() {
  for (const Workload& workload : workloads)
    for (const at::ScalarType dtype : precisions)
      add_comparison({"linear_cross_entropy", workload, dtype},
                     [=] { return linear_cross_entropy(workload, dtype); });
}

}  // namespace accrue::bench
