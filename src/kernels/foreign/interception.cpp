#include "kernels/foreign/interception.h"

#include <ATen/ATen.h>
#include <ATen/RedispatchFunctions.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <optional>
#include <string_view>
#include <vector>

#include "accrue/core/error.h"
#include "kernels/foreign/accelerated_scope.h"
#include "kernels/foreign/foreign_attention.h"
#include "kernels/foreign/foreign_convolution.h"
#include "kernels/foreign/foreign_embedding.h"
#include "kernels/foreign/foreign_product.h"
#include "kernels/foreign/foreign_rows.h"
#include "kernels/foreign/sample_dropout.h"
#include "kernels/operations.h"

namespace accrue::kernels {
namespace {

/// During its lifetime, operations of this thread go to libtorch. Each function that the dispatcher
/// calls makes one first. Scopes that another thread closed are left before the key is excluded,
/// because the key is restored afterwards.
class InterceptionExclusion {
 private:
  static c10::DispatchKey key_behind_closed_scopes() {
    AcceleratedScope::leave_closed();
    return accelerated_key;
  }
  c10::impl::ExcludeDispatchKeyGuard guard_{key_behind_closed_scopes()};
};

/// The keys that come after accrue's.
constexpr c10::DispatchKeySet later_keys(c10::DispatchKeySet::FULL_AFTER, accelerated_key);

/// Whether accrue runs operations of the current pass on this thread.
bool does_operations() {
  const AcceleratedPass* pass = AcceleratedScope::innermost();
  if (pass == nullptr || pass->caught == InterceptedOperations::dropouts) return false;
  return pass->caught == InterceptedOperations::always || at::GradMode::is_enabled();
}

/// Whether libtorch first casts the operands of products, and then calls again.
bool is_autocasting() { return at::autocast::is_autocast_enabled(at::kCPU); }

/// Whether the gradient of an operation on `inputs` is needed, or will be.
bool is_differentiated(at::TensorList inputs) {
  for (const at::Tensor& input : inputs)
    if (input.requires_grad()) return true;
  return AcceleratedScope::innermost()->caught == InterceptedOperations::always;
}

/// Whether it is a dense tensor on the CPU, of libtorch's own class, without a forward-mode
/// derivative.
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

/// The pass of the model with this parameter, if a gradient for it is recorded.
AcceleratedPass* pass_of_trained(const at::Tensor& parameter) {
  if (!parameter.defined() || !parameter.is_leaf() || !parameter.requires_grad()) return nullptr;
  return AcceleratedScope::of(parameter);
}

/// The pass for which accrue computes x · factor, of a parameter or its transpose; null: libtorch
/// computes it.
AcceleratedPass* pass_of_product(const at::Tensor& x, const at::Tensor& factor) {
  if (!does_operations() || !is_ordinary(x) || !is_ordinary(factor)) return nullptr;
  if (x.dim() != 2 || factor.dim() != 2 || x.size(1) != factor.size(0)) return nullptr;
  if (!is_real_or_bf16(x) || factor.scalar_type() != x.scalar_type()) return nullptr;
  // Without a graph a cast does not show its origin.
  AcceleratedPass* pass = AcceleratedScope::innermost();
  if (pass->caught == InterceptedOperations::always && x.scalar_type() == at::kBFloat16)
    return pass;
  return pass_of_trained(origin_of_factor(factor).parameter);
}

at::Tensor asked_mm(c10::DispatchKeySet keys, const at::Tensor& x, const at::Tensor& factor) {
  if (is_autocasting()) return at::redispatch::mm(keys & later_keys, x, factor);
  const InterceptionExclusion exclusion;
  AcceleratedPass* pass = pass_of_product(x, factor);
  if (pass == nullptr) return at::mm(x, factor);
  ++pass->model->calls.products;
  return foreign_product(x, factor, {});
}

bool is_bias_of(const at::Tensor& bias, const at::Tensor& factor) {
  return is_ordinary(bias) && bias.dim() == 1 && bias.size(0) == factor.size(1) &&
         bias.scalar_type() == factor.scalar_type();
}

at::Tensor asked_addmm(c10::DispatchKeySet keys, const at::Tensor& bias, const at::Tensor& x,
                       const at::Tensor& factor, const at::Scalar& beta, const at::Scalar& alpha) {
  if (is_autocasting())
    return at::redispatch::addmm(keys & later_keys, bias, x, factor, beta, alpha);
  const InterceptionExclusion exclusion;
  AcceleratedPass* pass = pass_of_product(x, factor);
  if (pass == nullptr || !is_bias_of(bias, factor) || beta.toDouble() != 1 || alpha.toDouble() != 1)
    return at::addmm(bias, x, factor, beta, alpha);
  ++pass->model->calls.products;
  return foreign_product(x, factor, bias);
}

at::Tensor asked_embedding(const at::Tensor& table, const at::Tensor& ids, std::int64_t padding,
                           bool scale_grad_by_freq, bool sparse) {
  const InterceptionExclusion exclusion;
  AcceleratedPass* pass = nullptr;
  if (does_operations() && !scale_grad_by_freq && !sparse && is_ordinary(table) &&
      is_ordinary(ids) && table.dim() == 2 && is_real(table))
    pass = pass_of_trained(table);
  if (pass == nullptr) return at::embedding(table, ids, padding, scale_grad_by_freq, sparse);
  ++pass->model->calls.embeddings;
  return foreign_embedding(table, ids, padding);
}

bool is_parameter_of_rows(const at::Tensor& parameter, const at::Tensor& x) {
  return is_ordinary(parameter) && parameter.dim() == 1 &&
         parameter.scalar_type() == x.scalar_type();
}

at::Tensor asked_layer_norm(const at::Tensor& x, at::IntArrayRef normalized_shape,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, double eps, bool cudnn_enable) {
  const InterceptionExclusion exclusion;
  AcceleratedPass* pass = nullptr;
  if (does_operations() && weight && bias && is_ordinary(x) && is_real(x) &&
      normalized_shape.size() == 1 && x.dim() >= 1 && x.size(-1) == normalized_shape[0] &&
      is_parameter_of_rows(*weight, x) && is_parameter_of_rows(*bias, x) &&
      weight->size(0) == x.size(-1) && bias->size(0) == x.size(-1))
    pass = pass_of_trained(*weight);
  if (pass == nullptr) return at::layer_norm(x, normalized_shape, weight, bias, eps, cudnn_enable);
  ++pass->model->calls.layer_norms;
  return foreign_layer_norm(x, *weight, *bias, eps);
}

at::Tensor asked_gelu(const at::Tensor& x, std::string_view approximate) {
  const InterceptionExclusion exclusion;
  const bool fits = does_operations() && is_ordinary(x) && is_real(x) && is_differentiated({x}) &&
                    approximate == "tanh";
  if (!fits) return at::gelu(x, approximate);
  ++AcceleratedScope::innermost()->model->calls.gelus;
  return foreign_gelu(x);
}

/// Whether oneDNN can compute the weight's gradient: fp32, one to three spatial dimensions.
bool fits_convolution(const at::Tensor& x, const at::Tensor& weight) {
  return at::GradMode::is_enabled() && does_operations() && is_ordinary(x) && is_ordinary(weight) &&
         x.dim() >= 3 && x.dim() <= 5 && weight.dim() == x.dim() && x.scalar_type() == at::kFloat &&
         weight.scalar_type() == at::kFloat;
}

/// A single number applies to all spatial dimensions.
std::vector<std::int64_t> of_each_dimension(at::IntArrayRef numbers, const at::Tensor& x) {
  const auto dimensions = static_cast<std::size_t>(x.dim() - 2);
  return numbers.size() == 1 ? std::vector(dimensions, numbers[0]) : numbers.vec();
}

at::Tensor asked_convolution(const at::Tensor& x, const at::Tensor& weight,
                             const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                             at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                             at::IntArrayRef output_padding, std::int64_t groups) {
  const InterceptionExclusion exclusion;
  AcceleratedPass* pass = fits_convolution(x, weight) ? pass_of_trained(weight) : nullptr;
  if (pass == nullptr)
    return at::convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding,
                           groups);
  ++pass->model->calls.convolutions;
  return foreign_convolution(x, weight, bias.value_or(at::Tensor()),
                             {.stride = of_each_dimension(stride, x),
                              .padding = of_each_dimension(padding, x),
                              .dilation = of_each_dimension(dilation, x),
                              .transposed = transposed,
                              .output_padding = of_each_dimension(output_padding, x),
                              .groups = groups});
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

/// Attention by accrue's kernel, or, if accrue only runs the pass's dropouts, by the operations of
/// its context.
at::Tensor attention_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const GroupedAttentionOptions& options, const AcceleratedPass& pass) {
  if (pass.caught == InterceptedOperations::dropouts)
    return as_heads(operations_of(pass.context)
                        .grouped_attention(as_positions(q), as_positions(k), as_positions(v),
                                           options, pass.context),
                    options.heads);
  return foreign_attention(q, k, v, options, pass.context);
}

/// Whether accrue runs this attention: a pass supports it, or drops some of it.
struct FittedAttention {
  AcceleratedPass* pass = AcceleratedScope::innermost();
  bool drops = false, fits = false;

  /// libtorch composes it of other operations, including a dropout of the pass.
  bool is_made_of_others(const at::Tensor& q) const {
    return drops && !(fits && pass->samples() == q.size(0));
  }
};

at::Tensor asked_attention(c10::DispatchKeySet keys, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, const std::optional<at::Tensor>& mask,
                           double dropout, bool is_causal, std::optional<double> scale,
                           bool enable_gqa) {
  const auto fitted = [&] {
    FittedAttention of;
    if (of.pass == nullptr) return of;
    of.drops = of.pass->samples() > 0 && dropout > 0 && dropout < 1;
    of.fits = !mask && scale.value_or(1) > 0 && fits_attention(q, k, v, enable_gqa);
    return of;
  };
  if (is_autocasting() || fitted().is_made_of_others(q))
    return at::redispatch::scaled_dot_product_attention(keys & later_keys, q, k, v, mask, dropout,
                                                        is_causal, scale, enable_gqa);
  const InterceptionExclusion exclusion;
  const auto [pass, drops, fits] = fitted();
  if (!fits || !(drops || (dropout == 0 && does_operations() && is_differentiated({q, k, v}))))
    return at::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale, enable_gqa);
  ++pass->model->calls.attentions;
  return attention_of(q, k, v,
                      {.heads = q.size(1),
                       .kv_heads = k.size(1),
                       .causal = is_causal,
                       .scale = scale.value_or(0),
                       .dropout = dropout,
                       .site = drops ? pass->next_site++ : 0},
                      *pass);
}

/// The units that dropout drops.
enum class Dropped : std::uint8_t { elements, channels };

bool has_rows_of_samples(const at::Tensor& x, std::int64_t samples, Dropped dropped) {
  if (dropped == Dropped::elements) return sample_layout(x, samples) != SampleLayout::unknown;
  return x.dim() >= 2 && samples > 0 && x.size(0) == samples;
}

/// The pass whose samples key the mask of a dropout; null: libtorch draws it.
AcceleratedPass* pass_of_dropout(const at::Tensor& x, double probability, bool training,
                                 Dropped dropped = Dropped::elements) {
  AcceleratedPass* pass = AcceleratedScope::innermost();
  if (pass == nullptr || pass->context.sample_ids.empty() || !training || probability <= 0 ||
      probability >= 1)
    return nullptr;
  const bool fits =
      is_ordinary(x) && is_real_or_bf16(x) && has_rows_of_samples(x, pass->samples(), dropped);
  const bool is_sure = fits &&
                       (dropped == Dropped::channels || !is_layout_ambiguous(x, pass->samples())) &&
                       pass->model->has_rows(pass->next_site, rows_of_sample(x, pass->samples()));
  if (fits) ++pass->model->calls.dropouts;
  if (!is_sure) ++pass->model->unkeyed_dropouts;
  return fits ? pass : nullptr;
}

at::Tensor asked_dropout(const at::Tensor& x, double probability, bool training) {
  const InterceptionExclusion exclusion;
  AcceleratedPass* pass = pass_of_dropout(x, probability, training);
  if (pass == nullptr) return at::dropout(x, probability, training);
  return sample_dropout(x, probability, pass->context, pass->next_site++);
}

at::Tensor& asked_dropout_in_place(at::Tensor& x, double probability, bool training) {
  const InterceptionExclusion exclusion;
  AcceleratedPass* pass = pass_of_dropout(x, probability, training);
  if (pass == nullptr) return at::dropout_(x, probability, training);
  return x.mul_(sample_factors(x, probability, pass->context, pass->next_site++));
}

at::Tensor asked_feature_dropout(const at::Tensor& x, double probability, bool training) {
  const InterceptionExclusion exclusion;
  AcceleratedPass* pass = pass_of_dropout(x, probability, training, Dropped::channels);
  if (pass == nullptr) return at::feature_dropout(x, probability, training);
  return x * feature_factors(x, probability, pass->context, pass->next_site++);
}

at::Tensor& asked_feature_dropout_in_place(at::Tensor& x, double probability, bool training) {
  const InterceptionExclusion exclusion;
  AcceleratedPass* pass = pass_of_dropout(x, probability, training, Dropped::channels);
  if (pass == nullptr) return at::feature_dropout_(x, probability, training);
  return x.mul_(feature_factors(x, probability, pass->context, pass->next_site++));
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
    operations_.impl("convolution", TORCH_FN(asked_convolution));
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
  std::optional<torch::Library> others_;  ///< operations that accrue does not run
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
