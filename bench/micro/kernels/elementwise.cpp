// The activation of a layer's hidden part, and dropout of its result.

#include "kernels/rows/elementwise.h"

#include <ATen/ATen.h>

#include "accrue/kernels/dropout.h"
#include "comparison.h"
#include "differentiated.h"

namespace accrue::bench {
namespace {

constexpr double gelu_flops = 9, gelu_backward_flops = 18;  ///< an element
constexpr double dropout_probability = 0.1;

Comparison gelu_forward(const Workload& workload, at::ScalarType dtype) {
  const at::Tensor pre = random({workload.tokens(), 4 * workload.width}, dtype);
  const at::Tensor ours = at::empty_like(pre), theirs = at::empty_like(pre);
  return {.accrue =
              [=] {
                at::Tensor out = ours;
                kernels::elementwise::gelu(pre, out);
                return std::vector{out};
              },
          .aten =
              [=] {
                at::Tensor out = theirs;
                return std::vector{at::gelu_out(out, pre, "tanh")};
              },
          .flops = gelu_flops * static_cast<double>(pre.numel()),
          .bytes = bytes_of({pre, ours})};
}

Comparison gelu_backward(const Workload& workload, at::ScalarType dtype) {
  const at::Tensor pre = random({workload.tokens(), 4 * workload.width}, dtype),
                   grad = random(pre.sizes(), dtype);
  const at::Tensor ours = at::empty_like(pre), theirs = at::empty_like(pre);
  return {.accrue =
              [=] {
                at::Tensor out = ours;
                kernels::elementwise::gelu_backward(grad, pre, out);
                return std::vector{out};
              },
          .aten =
              [=] {
                at::Tensor out = theirs;
                return std::vector{at::gelu_backward_out(out, grad, pre, "tanh")};
              },
          .flops = gelu_backward_flops * static_cast<double>(pre.numel()),
          .bytes = bytes_of({grad, pre, ours})};
}

struct Dropouts {
  Dropouts(const Workload& workload, at::ScalarType dtype)
      : x(random({workload.samples, workload.context, workload.width}, dtype)
              .requires_grad_(true)) {
    for (std::int64_t id = 0; id < workload.samples; ++id) context.sample_ids.push_back(id);
  }
  at::Tensor ours() const { return kernels::dropout(x, dropout_probability, context, 0); }
  at::Tensor theirs() const { return at::dropout(x, dropout_probability, true); }
  at::Tensor x;
  ForwardContext context{.training = true, .seed = 1, .window = 2};
};

/// The masks differ, so that there is nothing to compare.
std::vector<at::Tensor> unlike(const at::Tensor&) { return {}; }

Comparison dropout_forward(const Workload& workload, at::ScalarType dtype) {
  const Dropouts dropouts(workload, dtype);
  return {.accrue = [=] { return unlike(dropouts.ours()); },
          .aten = [=] { return unlike(dropouts.theirs()); },
          .flops = static_cast<double>(dropouts.x.numel()),
          .bytes = 2 * bytes_of({dropouts.x})};
}

/// Accrue draws the mask again; ATen reads the one that it kept.
Comparison dropout_backward(const Workload& workload, at::ScalarType dtype) {
  const Dropouts dropouts(workload, dtype);
  const at::Tensor grad = random(dropouts.x.sizes(), dtype);
  const Backward ours{{dropouts.ours()}, {dropouts.x}, {grad}},
      theirs{{dropouts.theirs()}, {dropouts.x}, {grad}};
  return {.accrue = [=] { return unlike(ours()[0]); },
          .aten = [=] { return unlike(theirs()[0]); },
          .flops = static_cast<double>(dropouts.x.numel()),
          .bytes = 2 * bytes_of({dropouts.x})};
}

}  // namespace

void add_elementwise() {
  for (const Workload& workload : workloads)
    for (const at::ScalarType dtype : precisions) {
      add_comparison({"gelu_forward", workload, dtype},
                     [=] { return gelu_forward(workload, dtype); });
      add_comparison({"gelu_backward", workload, dtype},
                     [=] { return gelu_backward(workload, dtype); });
      add_comparison({"dropout_forward", workload, dtype},
                     [=] { return dropout_forward(workload, dtype); });
      add_comparison({"dropout_backward", workload, dtype},
                     [=] { return dropout_backward(workload, dtype); });
    }
}

}  // namespace accrue::bench
