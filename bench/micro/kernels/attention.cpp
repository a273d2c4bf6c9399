// Causal self-attention of one layer on its packed projections.

#include "accrue/kernels/attention.h"

#include <ATen/ATen.h>

#include "comparison.h"
#include "differentiated.h"

namespace accrue::bench {
namespace {

/// Of the two products of forward, for the keys that a query sees.
double forward_flops(const Workload& workload) {
  const auto length = static_cast<double>(workload.context);
  return 4 * static_cast<double>(workload.samples * workload.width) * length * (length + 1) / 2;
}

struct Attentions {
  Attentions(const Workload& workload, at::ScalarType dtype)
      : heads(workload.heads),
        qkv(random({workload.samples, workload.context, 3 * workload.width}, dtype)
                .requires_grad_(true)) {
    for (std::int64_t id = 0; id < workload.samples; ++id) context.sample_ids.push_back(id);
  }
  at::Tensor ours() const { return kernels::attention(qkv, heads, {}, context); }
  /// The fused kernel takes the heads as views of qkv.
  at::Tensor theirs() const {
    const std::int64_t batch = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3;
    const at::Tensor split =
        qkv.view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
    return at::scaled_dot_product_attention(split[0], split[1], split[2], {}, 0, /*is_causal=*/true)
        .transpose(1, 2)
        .reshape({batch, length, width});
  }
  std::int64_t heads;
  at::Tensor qkv;
  ForwardContext context{.training = true, .seed = 1, .window = 2};
};

Comparison forward(const Workload& workload, at::ScalarType dtype) {
  const Attentions attentions(workload, dtype);
  return {.accrue = [=] { return std::vector{attentions.ours()}; },
          .aten = [=] { return std::vector{attentions.theirs()}; },
          .flops = forward_flops(workload),
          .bytes = bytes_of({attentions.qkv}) * 4 / 3,
          .products = dtype};
}

/// Five products, as the probabilities are made again.
Comparison backward(const Workload& workload, at::ScalarType dtype) {
  const Attentions attentions(workload, dtype);
  const at::Tensor grad = random({workload.samples, workload.context, workload.width}, dtype);
  const Backward ours{{attentions.ours()}, {attentions.qkv}, {grad}},
      theirs{{attentions.theirs()}, {attentions.qkv}, {grad}};
  return {.accrue = [=] { return ours(); },
          .aten = [=] { return theirs(); },
          .flops = 2.5 * forward_flops(workload),
          .bytes = bytes_of({attentions.qkv, grad, attentions.qkv}),
          .products = dtype};
}

}  // namespace

void add_attention() {
  for (const Workload& workload : workloads)
    for (const at::ScalarType dtype : precisions) {
      add_comparison({"attention_forward", workload, dtype},
                     [=] { return forward(workload, dtype); });
      add_comparison({"attention_backward", workload, dtype},
                     [=] { return backward(workload, dtype); });
    }
}

}  // namespace accrue::bench
