#include "accrue/kernels/attention.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>

#include "accrue/core/error.h"
#include "aten_element.h"
#include "attention_kernels.h"
#include "first_order.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Sizes, and where a head's matrices lie in [B, T, parts * C].
struct Shape {
  std::int64_t batch, length, heads, width;

  std::int64_t channels() const { return heads * width; }
  std::int64_t all_heads() const { return batch * heads; }
  /// Of part 0 (q, or the output), 1 (k) or 2 (v) of packed [B, T, parts * C].
  std::int64_t offset(std::int64_t head, std::int64_t part, std::int64_t parts) const {
    return (head / heads) * length * parts * channels() + part * channels() +
           (head % heads) * width;
  }
};

Shape shape_of(const at::Tensor& qkv, std::int64_t heads) {
  return {qkv.size(0), qkv.size(1), heads, qkv.size(2) / (3 * heads)};
}

void expect_arguments(const at::Tensor& qkv, std::int64_t heads) {
  expect_on_cpu(qkv, "causal_attention");
  if (heads >= 1 && qkv.dim() == 3 && qkv.size(2) > 0 && qkv.size(2) % (3 * heads) == 0) return;
  throw usage_error("causal_attention",
                    "qkv [B, T, 3 * C] with C a multiple of " + std::to_string(heads) + " heads",
                    std::to_string(qkv.dim()) + " dimensions, the last of " +
                        std::to_string(qkv.dim() == 0 ? 0 : qkv.size(-1)),
                    "a width that the number of heads divides");
}

const char* element(const at::Tensor& tensor, std::int64_t index) {
  return static_cast<const char*>(tensor.const_data_ptr()) + index * tensor.element_size();
}

char* element(at::Tensor& tensor, std::int64_t index) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + index * tensor.element_size();
}

/// body(head, scratch) for every head of the batch, each in one thread; one scratch a thread.
template <class Body>
void for_each_head(const Shape& shape, std::size_t scratch_elements,
                   const at::TensorOptions& options, Body body) {
  at::parallel_for(0, shape.all_heads(), 1, [&](std::int64_t begin, std::int64_t end) {
    at::Tensor scratch = at::empty({static_cast<std::int64_t>(scratch_elements)}, options);
    for (std::int64_t head = begin; head < end; ++head) body(head, scratch.mutable_data_ptr());
  });
}

struct CausalAttention : torch::autograd::Function<CausalAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& packed,
                            std::int64_t heads) {
    const at::Tensor qkv = packed.contiguous();
    const Shape shape = shape_of(qkv, heads);
    const auto length = static_cast<std::size_t>(shape.length);
    const auto width = static_cast<std::size_t>(shape.width);
    const auto channels = static_cast<std::size_t>(shape.channels());
    const at::TensorOptions sums = qkv.options().dtype(accumulation_dtype(qkv.scalar_type()));
    at::Tensor out = at::empty({shape.batch, shape.length, shape.channels()}, qkv.options());
    at::Tensor log_sums = at::empty({shape.all_heads(), shape.length}, sums);
    const Element type = element_of(qkv.scalar_type(), "causal_attention");
    for_each_head(shape, rows::head_forward_scratch(length, width), sums,
                  [&](std::int64_t head, void* scratch) {
                    rows::head_forward({
                        .type = type,
                        .length = length,
                        .width = width,
                        .q = element(qkv, shape.offset(head, 0, 3)),
                        .k = element(qkv, shape.offset(head, 1, 3)),
                        .v = element(qkv, shape.offset(head, 2, 3)),
                        .stride = 3 * channels,
                        .out = element(out, shape.offset(head, 0, 1)),
                        .out_stride = channels,
                        .log_sums = element(log_sums, head * shape.length),
                        .scratch = scratch,
                    });
                  });
    context->saved_data["heads"] = heads;
    context->save_for_backward({qkv, log_sums});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("causal_attention");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &log_sums = saved[1];
    const at::Tensor grad_out = grads[0].contiguous();
    const Shape shape = shape_of(qkv, context->saved_data["heads"].toInt());
    const auto length = static_cast<std::size_t>(shape.length);
    const auto width = static_cast<std::size_t>(shape.width);
    const auto channels = static_cast<std::size_t>(shape.channels());
    at::Tensor grad_qkv = at::empty(qkv.sizes(), qkv.options());
    const Element type = element_of(qkv.scalar_type(), "causal_attention");
    for_each_head(shape, rows::head_backward_scratch(length, width), log_sums.options(),
                  [&](std::int64_t head, void* scratch) {
                    rows::head_backward({
                        .type = type,
                        .length = length,
                        .width = width,
                        .q = element(qkv, shape.offset(head, 0, 3)),
                        .k = element(qkv, shape.offset(head, 1, 3)),
                        .v = element(qkv, shape.offset(head, 2, 3)),
                        .stride = 3 * channels,
                        .grad_out = element(grad_out, shape.offset(head, 0, 1)),
                        .grad_out_stride = channels,
                        .log_sums = element(log_sums, head * shape.length),
                        .grad_q = element(grad_qkv, shape.offset(head, 0, 3)),
                        .grad_k = element(grad_qkv, shape.offset(head, 1, 3)),
                        .grad_v = element(grad_qkv, shape.offset(head, 2, 3)),
                        .scratch = scratch,
                    });
                  });
    return {grad_qkv, {}};
  }
};

}  // namespace

at::Tensor causal_attention(const at::Tensor& qkv, std::int64_t heads) {
  expect_arguments(qkv, heads);
  return CausalAttention::apply(qkv, heads);
}

}  // namespace accrue::kernels
