#include "kernels/foreign/foreign_embedding.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/foreign/gradients_with_graph.h"
#include "kernels/rows/token_gradient.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Runs of ids that are not `padding`.
Parts rows_without(const at::Tensor& ids, std::int64_t padding) {
  if (padding < 0) return {{.begin = 0, .length = ids.numel()}};
  const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
  Parts parts;
  for (std::int64_t row = 0; row < ids.numel(); ++row) {
    if (id[row] == padding) continue;
    if (parts.empty() || parts.back().begin + parts.back().length != row)
      parts.push_back({.begin = row, .length = 0});
    ++parts.back().length;
  }
  return parts;
}

struct ForeignEmbedding : torch::autograd::Function<ForeignEmbedding> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table,
                            const at::Tensor& ids, std::int64_t padding) {
    context->save_for_backward({table, ids});
    context->saved_data["padding"] = padding;
    return at::embedding(table, ids, padding);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &table = saved[0], &ids = saved[1];
    const std::int64_t padding = context->saved_data["padding"].toInt();
    if (at::GradMode::is_enabled())
      return {gradients_with_graph({table}, grads[0],
                                   [&](const variable_list& inputs) {
                                     return at::embedding(inputs[0], ids, padding);
                                   })[0],
              {},
              {}};
    if (!context->needs_input_grad(0)) return variable_list(3);
    const at::Tensor rows = ids.to(at::kLong).contiguous();
    return {
        token_gradient(rows_without(rows, padding), rows, grads[0].contiguous(), table), {}, {}};
  }
};

}  // namespace

at::Tensor foreign_embedding(const at::Tensor& table, const at::Tensor& ids, std::int64_t padding) {
  return ForeignEmbedding::apply(table, ids, padding);
}

}  // namespace accrue::kernels
