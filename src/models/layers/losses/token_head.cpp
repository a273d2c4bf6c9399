#include "models/layers/losses/token_head.h"

#include <ATen/ATen.h>

#include <string>

#include "accrue/core/error.h"
#include "accrue/kernels/cross_entropy.h"
#include "kernels/gemm/gemm.h"
#include "kernels/operations.h"
#include "models/layers/losses/loss_terms.h"
#include "models/layers/losses/preference_loss.h"

namespace accrue::models {
namespace {

/// hidden [M, C] · weightᵀ of bf16 operands, in fp32.
at::Tensor wide_product(const at::Tensor& hidden, const at::Tensor& weight) {
  at::Tensor product =
      at::empty({hidden.size(0), weight.size(0)}, hidden.options().dtype(at::kFloat));
  kernels::gemm_out(product, hidden, weight.t());
  return product;
}

}  // namespace

Loss TokenHead::loss(const at::Tensor& hidden, const batch::MicroBatch& micro,
                     const ForwardContext& context, double gradient_scale) {
  kernels::CrossEntropyOptions terms = loss_terms(options, micro, context);
  terms.soft_cap = soft_cap;
  const kernels::Operations& kernels = kernels::operations_of(context);
  if (fused)
    return kernels.linear_cross_entropy(hidden, weight, micro.targets, prepared,
                                        {.loss = terms,
                                         .bias = bias,
                                         .gradient_scale = gradient_scale,
                                         .overwrite_hidden = context.last_reader,
                                         .upstream = context.upstream});
  return kernels::cross_entropy(kernels.linear(hidden, weight, bias, prepared, {}), micro.targets,
                                terms);
}

at::Tensor TokenHead::logits(const at::Tensor& hidden, const ForwardContext& context) {
  if (weight.scalar_type() == at::kBFloat16) return capped(wide_product(hidden, weight));
  return capped(kernels::operations_of(context).linear(hidden, weight, {}, prepared, {}));
}

at::Tensor TokenHead::decoded_logits(const at::Tensor& hidden) {
  const at::ScalarType dtype =
      weight.scalar_type() == at::kBFloat16 ? at::kFloat : weight.scalar_type();
  at::Tensor plain = at::empty({hidden.size(0), weight.size(0)}, weight.options().dtype(dtype));
  kernels::gemm_out(plain, hidden, prepared.copy(weight, hidden.scalar_type()).t());
  return capped(plain);
}

std::vector<at::Tensor> TokenHead::weights() const {
  std::vector<at::Tensor> tensors = prepared.next_operands(weight);
  if (bias.defined()) tensors.push_back(bias);
  return tensors;
}

LossHead token_loss(TokenHead* head) {
  if (is_of_pairs(head->options.kind)) return preference_loss(head);
  return {"cross_entropy",
          [head](const Activations& hidden, const batch::MicroBatch& micro,
                 const ForwardContext& context, double gradient_scale) {
            return head->loss(hidden.at(0), micro, context, gradient_scale);
          },
          [](const batch::MicroBatch& micro) {
            return kernels::label_weight(micro.targets, micro.weights);
          }};
}

void check_token_ids(const char* operation, const at::Tensor& ids, std::int64_t context,
                     bool packed) {
  if (!ids.defined() || ids.dim() != 2 || ids.scalar_type() != at::kLong ||
      (!packed && ids.size(1) > context))
    throw usage_error(
        operation,
        "int64 token ids [B, T] with T <= " + std::to_string(context) + " (model.context)",
        ids.defined() ? c10::str(ids.scalar_type(), ' ', ids.sizes()) : "no tensor",
        "shorter samples or a larger context");
}

void check_decoded_ids(const char* operation, const at::Tensor& ids, std::int64_t room) {
  if (ids.defined() && ids.dim() == 2 && ids.scalar_type() == at::kLong && ids.size(0) == 1 &&
      ids.size(1) >= 1 && ids.size(1) <= room)
    return;
  throw usage_error(operation,
                    "int64 token ids [1, T], T from 1 to the " + std::to_string(room) +
                        " that the context has room for",
                    ids.defined() ? c10::str(ids.scalar_type(), ' ', ids.sizes()) : "no tensor",
                    "a new cache with the last tokens");
}

at::Tensor padded_right(const at::Tensor& ids, std::int64_t most_tokens, const char* operation) {
  constexpr std::int64_t length_step = 64;  // lengths are rounded up to it
  check_token_ids(operation, ids, most_tokens, /*packed=*/false);
  const std::int64_t length = ids.size(1);
  if (length == 0) throw usage_error(operation, "at least one token", "none", "a prompt");
  const std::int64_t padded =
      std::min(most_tokens, (length + length_step - 1) / length_step * length_step);
  return at::constant_pad_nd(ids, {0, padded - length});
}

}  // namespace accrue::models
