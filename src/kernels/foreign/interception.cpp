#include "kernels/foreign/interception.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <optional>
#include <string_view>

#include "accrue/core/error.h"
#include "kernels/foreign/accelerated_scope.h"
#include "kernels/foreign/foreign_attention.h"
#include "kernels/foreign/foreign_embedding.h"
#include "kernels/foreign/foreign_product.h"
#include "kernels/foreign/foreign_rows.h"
#include "kernels/foreign/sample_dropout.h"

namespace accrue::kernels {
namespace {

/// While it lives, operations of this thread go to libtorch. Each function that the dispatcher asks
/// makes one first.
class Plainly {
  c10::impl::ExcludeDispatchKeyGuard guard_{accelerated_key};
};

bool records_a_graph() {
  return at::GradMode::is_enabled() && !at::autocast::is_autocast_enabled(at::kCPU);
}

/// Whether it is a dense tensor on the CPU, of the class that libtorch's own are, and without a
/// forward-mode derivative.
bool is_ordinary(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet of_any_tensor =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
  return tensor.defined() &&
         tensor.key_set() - of_any_tensor == c10::DispatchKeySet(c10::DispatchKey::CPU) &&
         tensor.numel() > 0 && !tensor._fw_grad(/*level=*/0).defined();
}

bool is_real(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}

bool is_real_or_bf16(const at::Tensor& tensor) {
  return is_real(tensor) || tensor.scalar_type() == at::kBFloat16;
}

/// Whose parameter it is, where a gradient for it is recorded.
AcceleratedScope* scope_of_trained(const at::Tensor& parameter) {
  if (!parameter.defined() || !parameter.is_leaf() || !parameter.requires_grad()) return nullptr;
  return AcceleratedScope::of(parameter);
}

/// Whose parameter `factor` is or transposes, where accrue makes x · factor; null: libtorch does.
AcceleratedScope* scope_of_product(const at::Tensor& x, const at::Tensor& factor) {
  if (!records_a_graph() || !is_ordinary(x) || !is_ordinary(factor)) return nullptr;
  if (x.dim() != 2 || factor.dim() != 2 || x.size(1) != factor.size(0)) return nullptr;
  if (!is_real_or_bf16(x) || factor.scalar_type() != x.scalar_type()) return nullptr;
  return scope_of_trained(transposed_or_same_parameter(factor));
}

at::Tensor asked_mm(const at::Tensor& x, const at::Tensor& factor) {
  const Plainly plainly;
  AcceleratedScope* scope = scope_of_product(x, factor);
  if (scope == nullptr) return at::mm(x, factor);
  ++scope->calls.products;
  return foreign_product(x, factor, {});
}

bool is_bias_of(const at::Tensor& bias, const at::Tensor& factor) {
  return is_ordinary(bias) && bias.dim() == 1 && bias.size(0) == factor.size(1) &&
         bias.scalar_type() == factor.scalar_type();
}

at::Tensor asked_addmm(const at::Tensor& bias, const at::Tensor& x, const at::Tensor& factor,
                       const at::Scalar& beta, const at::Scalar& alpha) {
  const Plainly plainly;
  AcceleratedScope* scope = scope_of_product(x, factor);
  if (scope == nullptr || !is_bias_of(bias, factor) || beta.toDouble() != 1 ||
      alpha.toDouble() != 1)
    return at::addmm(bias, x, factor, beta, alpha);
  ++scope->calls.products;
  return foreign_product(x, factor, bias);
}

at::Tensor asked_embedding(const at::Tensor& table, const at::Tensor& ids, std::int64_t padding,
                           bool scale_grad_by_freq, bool sparse) {
  const Plainly plainly;
  AcceleratedScope* scope = nullptr;
  if (records_a_graph() && !scale_grad_by_freq && !sparse && is_ordinary(table) &&
      is_ordinary(ids) && table.dim() == 2 && is_real(table))
    scope = scope_of_trained(table);
  if (scope == nullptr) return at::embedding(table, ids, padding, scale_grad_by_freq, sparse);
  ++scope->calls.embeddings;
  return foreign_embedding(table, ids, padding);
}

bool is_parameter_of_rows(const at::Tensor& parameter, const at::Tensor& x) {
  return is_ordinary(parameter) && parameter.dim() == 1 &&
         parameter.scalar_type() == x.scalar_type();
}

at::Tensor asked_layer_norm(const at::Tensor& x, at::IntArrayRef normalized_shape,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, double eps, bool cudnn_enable) {
  const Plainly plainly;
  AcceleratedScope* scope = nullptr;
  if (records_a_graph() && weight && bias && is_ordinary(x) && is_real(x) &&
      normalized_shape.size() == 1 && x.dim() >= 1 && x.size(-1) == normalized_shape[0] &&
      is_parameter_of_rows(*weight, x) && is_parameter_of_rows(*bias, x) &&
      weight->size(0) == x.size(-1) && bias->size(0) == x.size(-1))
    scope = scope_of_trained(*weight);
  if (scope == nullptr) return at::layer_norm(x, normalized_shape, weight, bias, eps, cudnn_enable);
  ++scope->calls.layer_norms;
  return foreign_layer_norm(x, *weight, *bias, eps);
}

at::Tensor asked_gelu(const at::Tensor& x, std::string_view approximate) {
  const Plainly plainly;
  AcceleratedScope* scope = AcceleratedScope::innermost();
  const bool fits = scope != nullptr && records_a_graph() && is_ordinary(x) && is_real(x) &&
                    x.requires_grad() && approximate == "tanh";
  if (!fits) return at::gelu(x, approximate);
  ++scope->calls.gelus;
  return foreign_gelu(x);
}

bool fits_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    bool enable_gqa) {
  for (const at::Tensor* part : {&q, &k, &v})
    if (!is_ordinary(*part) || part->dim() != 4 || !is_real_or_bf16(*part) ||
        part->scalar_type() != q.scalar_type())
      return false;
  return k.sizes() == v.sizes() && k.size(0) == q.size(0) && k.size(2) == q.size(2) &&
         k.size(3) == q.size(3) &&
         (k.size(1) == q.size(1) || (enable_gqa && q.size(1) % k.size(1) == 0));
}

at::Tensor asked_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::optional<at::Tensor>& mask, double dropout, bool is_causal,
                           std::optional<double> scale, bool enable_gqa) {
  const Plainly plainly;
  AcceleratedScope* scope = AcceleratedScope::innermost();
  const bool takes_gradient =
      records_a_graph() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  const bool masks_by_sample = scope != nullptr && dropout > 0 && dropout < 1 && q.dim() > 0 &&
                               scope->samples() == q.size(0);
  const bool fits = scope != nullptr && (masks_by_sample || (takes_gradient && dropout == 0)) &&
                    !mask && scale.value_or(1) > 0 && fits_attention(q, k, v, enable_gqa) &&
                    !at::autocast::is_autocast_enabled(at::kCPU);
  if (!fits)
    return at::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale, enable_gqa);
  ++scope->calls.attentions;
  return foreign_attention(q, k, v,
                           {.heads = q.size(1),
                            .kv_heads = k.size(1),
                            .causal = is_causal,
                            .scale = scale.value_or(0),
                            .dropout = dropout,
                            .site = masks_by_sample ? scope->next_site() : 0},
                           scope->context());
}

/// Whose samples key the mask of a dropout; null: libtorch draws it.
AcceleratedScope* scope_of_dropout(const at::Tensor& x, double probability, bool training) {
  AcceleratedScope* scope = AcceleratedScope::innermost();
  const bool fits = scope != nullptr && scope->samples() > 0 && training && probability > 0 &&
                    probability < 1 && is_ordinary(x) && is_real_or_bf16(x) &&
                    sample_layout(x, scope->samples()) != SampleLayout::unknown;
  if (!fits) return nullptr;
  ++scope->calls.dropouts;
  return scope;
}

at::Tensor asked_dropout(const at::Tensor& x, double probability, bool training) {
  const Plainly plainly;
  AcceleratedScope* scope = scope_of_dropout(x, probability, training);
  if (scope == nullptr) return at::dropout(x, probability, training);
  return sample_dropout(x, probability, scope->context(), scope->next_site());
}

at::Tensor& asked_dropout_in_place(at::Tensor& x, double probability, bool training) {
  const Plainly plainly;
  AcceleratedScope* scope = scope_of_dropout(x, probability, training);
  if (scope == nullptr) return at::dropout_(x, probability, training);
  return x.mul_(sample_factors(x, probability, scope->context(), scope->next_site()));
}

/// Of whole channels, of which each sample has its own: the samples are the first dimension.
AcceleratedScope* scope_of_feature_dropout(const at::Tensor& x, double probability, bool training) {
  AcceleratedScope* scope = AcceleratedScope::innermost();
  const bool fits = scope != nullptr && x.dim() >= 2 && x.size(0) == scope->samples();
  return fits ? scope_of_dropout(x, probability, training) : nullptr;
}

at::Tensor asked_feature_dropout(const at::Tensor& x, double probability, bool training) {
  const Plainly plainly;
  AcceleratedScope* scope = scope_of_feature_dropout(x, probability, training);
  if (scope == nullptr) return at::feature_dropout(x, probability, training);
  return x * feature_factors(x, probability, scope->context(), scope->next_site());
}

at::Tensor& asked_feature_dropout_in_place(at::Tensor& x, double probability, bool training) {
  const Plainly plainly;
  AcceleratedScope* scope = scope_of_feature_dropout(x, probability, training);
  if (scope == nullptr) return at::feature_dropout_(x, probability, training);
  return x.mul_(feature_factors(x, probability, scope->context(), scope->next_site()));
}

/// Whether an out-of-tree device has registered its autocasting.
bool is_taken() {
  const auto linear = c10::Dispatcher::singleton().findSchemaOrThrow("aten::mm", "");
  return linear.hasKernelForDispatchKey(accelerated_key);
}

class Interception {
 public:
  Interception() : operations_(library("aten")) {
    if (!c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(accelerated_key)) {
      others_.emplace(library("_"));
      others_->fallback(torch::CppFunction::makeFallthrough());
    }
    operations_.impl("mm", TORCH_FN(asked_mm));
    operations_.impl("addmm", TORCH_FN(asked_addmm));
    operations_.impl("embedding", TORCH_FN(asked_embedding));
    operations_.impl("layer_norm", TORCH_FN(asked_layer_norm));
    operations_.impl("gelu", TORCH_FN(asked_gelu));
    operations_.impl("scaled_dot_product_attention", TORCH_FN(asked_attention));
    operations_.impl("dropout", TORCH_FN(asked_dropout));
    operations_.impl("dropout_", TORCH_FN(asked_dropout_in_place));
    operations_.impl("feature_dropout", TORCH_FN(asked_feature_dropout));
    operations_.impl("feature_dropout_", TORCH_FN(asked_feature_dropout_in_place));
  }

 private:
  static torch::Library library(const char* name) {
    return {torch::Library::IMPL, name, accelerated_key, __FILE__, __LINE__};
  }

  torch::Library operations_;
  std::optional<torch::Library> others_;  ///< operations that accrue does not do
};

}  // namespace

void install_interception() {
  static const bool taken = is_taken();
  if (taken)
    throw usage_error("accelerate", "a free dispatch key AutocastPrivateUse1",
                      "one whose operations an out-of-tree device has registered",
                      "training without accelerate() in this process");
  static const Interception installed;
}

}  // namespace accrue::kernels
