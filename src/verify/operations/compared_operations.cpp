#include "verify/operations/compared_operations.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "kernels/aten_element.h"
#include "kernels/plain/plain_operations.h"
#include "kernels/saved_value.h"

namespace accrue::proof {
namespace {

using kernels::Operations;
using Tensors = std::vector<at::Tensor>;
using Told = std::function<void(const Tensors& gradients)>;

/// Passes one or two tensors on, and reports their gradients when they arrive.
struct Tap : torch::autograd::Function<Tap> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& first,
                                                const std::optional<at::Tensor>& second,
                                                const Told& told) {
    context->saved_data["told"] = kernels::to_saved(told);
    torch::autograd::variable_list out{first.view_as(first)};
    if (second) out.push_back(second->view_as(*second));
    return out;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    kernels::from_saved<Told>(context->saved_data["told"])(gradients);
    return {gradients[0], gradients.size() > 1 ? gradients[1] : at::Tensor(), {}};
  }
};

/// The values as leaves, with gradients for those that need one.
Tensors as_leaves(const Tensors& inputs) {
  Tensors leaves;
  for (const at::Tensor& input : inputs)
    leaves.push_back(input.defined() ? input.detach().requires_grad_(input.requires_grad())
                                     : input);
  return leaves;
}

/// Results of one implementation, and gradients of the leaves that need them; others undefined.
struct Way {
  Tensors results, gradients;
};

Way run_way(const Tensors& results, const Tensors& leaves, const Tensors& upstream) {
  Way way{.results = results, .gradients = Tensors(leaves.size())};
  Tensors wanted, roots, given;
  for (const at::Tensor& leaf : leaves)
    if (leaf.defined() && leaf.requires_grad()) wanted.push_back(leaf);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (upstream[i].defined() && results[i].requires_grad()) {
      roots.push_back(results[i]);
      given.push_back(upstream[i]);
    }
  if (wanted.empty() || roots.empty()) return way;
  const Tensors found =
      torch::autograd::grad(roots, wanted, given, std::nullopt, false, /*allow_unused=*/true);
  auto next = found.begin();
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].defined() && leaves[i].requires_grad()) way.gradients[i] = *next++;
  return way;
}

double rows_of(const at::Tensor& x) {
  return x.dim() == 0 ? 1 : static_cast<double>(x.numel()) / static_cast<double>(x.size(-1));
}

bool in_sixteen_bits(const Tensors& tensors) {
  return std::ranges::any_of(tensors, [](const at::Tensor& tensor) {
    return tensor.defined() && kernels::is_sixteen_bit(tensor.scalar_type());
  });
}

/// The rounding error allowed for products and sums of one operation, in u.
constexpr double roundings = 64, roundings_of_bf16_products = 1024;
/// A sum over rows rounds once for each of them, up or down: its error is this many u times the
/// root of their number.
constexpr double roundings_of_a_row = 4;
/// Standard deviations of independent roundings along a direction.
constexpr double deviations = 8;
/// The error along a direction of rounding probabilities or exponentials to bf16: dropped and small
/// ones are not rounded up and down equally.
constexpr double bias_of_rounding = 0x1p-9;

/// The error of intermediate rounding to bf16, relative to the norm; that of fp16 is less.
double coarse_bound(Between between, at::ScalarType result) {
  const double unit = unit_roundoff(at::kBFloat16);
  if (kernels::is_sixteen_bit(result) || between == Between::more) return 2 * unit;
  return between == Between::values ? unit / 8 : 0;
}

}  // namespace

const std::string* ComparedOperations::parameter_of(const at::Tensor& input) const {
  for (const NamedParameter& parameter : parameters_)
    if (parameter.tensor.numel() > 0 && parameter.tensor.data_ptr() == input.data_ptr())
      return &parameter.name;
  return nullptr;
}

void ComparedOperations::note(const Operation& operation, const std::string& what,
                              const at::Tensor& native, const at::Tensor& plain,
                              const Sums& sums) const {
  const at::Tensor expected = plain.detach().to(at::kDouble);
  const at::Tensor difference = native.detach().to(at::kDouble) - expected;
  const double size = l2_norm(expected);
  const double largest = std::max(size, sums.size);  // a sum that cancels rounds like its terms
  const double scale = largest > 0 ? largest : 1;
  const double unit = unit_roundoff(plain.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const double fine = unit * ((sums.in_sixteen_bits ? roundings_of_bf16_products : roundings) +
                              roundings_of_a_row * std::sqrt(sums.rows));
  const double coarse =
      sums.in_sixteen_bits ? coarse_bound(operation.between, plain.scalar_type()) : 0;
  const double along = components(difference, expected)[0] / scale;
  // Elements that round independently count along the direction by their squares.
  const double weighted = size > 0 ? l2_norm(expected * expected) / (size * size) : 1;
  const double along_bound = std::max(deviations * coarse * weighted,
                                      operation.between == Between::more ? bias_of_rounding : 0);
  const Evidence norm{.error = l2_norm(difference) / scale, .bound = fine + coarse};
  const Evidence projection{.error = std::abs(along),
                            .bound = fine + std::min(coarse, along_bound),
                            .measure = Measure::gradient};
  results_.push_back({.operation = operation.name,
                      .what = what,
                      .scaling = size > 0 ? projection.bound * scale / size : INFINITY,
                      .worst = projection.ratio() > norm.ratio() ? projection : norm,
                      .factor = 1 + along});
}

void ComparedOperations::compare(const Operation& operation, const Tensors& inputs, const Run& run,
                                 const Tensors& upstream) const {
  const at::AutoGradMode with_grad(true);
  const Tensors of_native = as_leaves(inputs), of_plain = as_leaves(inputs);
  const Way native = run_way(run(native_, of_native), of_native, upstream);
  const Way plain = run_way(run(kernels::plain_operations(), of_plain), of_plain, upstream);
  Sums sums{.in_sixteen_bits = in_sixteen_bits(inputs) || in_sixteen_bits(native.results),
            .rows = std::max(rows_of(inputs[0]), rows_of(native.results[0]))};
  for (std::size_t i = 0; i < native.results.size(); ++i)
    note(operation, "the result", native.results[i], plain.results[i], sums);
  const double row_of_x =
      parameter_of(inputs[0]) ? 1 : l2_norm(inputs[0]) / std::sqrt(rows_of(inputs[0]));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!native.gradients[i].defined() || !plain.gradients[i].defined()) continue;
    const std::string* const name = parameter_of(inputs[i]);
    sums.size = name ? l2_norm(upstream) * (inputs[i].dim() >= 2 ? row_of_x : 1) : 0;
    note(operation, "the gradient of " + (name ? *name : "input " + std::to_string(i + 1)),
         native.gradients[i], plain.gradients[i], sums);
    if (name) results_.back().parameter_dim = inputs[i].dim();
  }
}

std::vector<at::Tensor> ComparedOperations::compared(const Operation& operation,
                                                     const Tensors& inputs, const Run& run) const {
  const Tensors results = run(native_, inputs);
  Tensors kept;  // values only: the graph must not hold itself
  for (const at::Tensor& input : inputs)
    kept.push_back(input.defined() && input.requires_grad() && !input.is_leaf()
                       ? input.detach().requires_grad_()
                       : input);
  const Told told = [this, operation, kept, run](const Tensors& gradients) {
    compare(operation, kept, run, gradients);
  };
  const std::optional<at::Tensor> second =
      results.size() > 1 ? std::optional(results[1]) : std::nullopt;
  return Tap::apply(results[0], second, told);
}

at::Tensor ComparedOperations::linear(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias, kernels::PreparedWeight& prepared,
                                      const kernels::Remake&) const {
  return compared({"linear"}, {x, weight, bias},
                  [&prepared](const Operations& by, const Tensors& in) {
                    return Tensors{by.linear(in[0], in[1], in[2], prepared, {})};
                  })[0];
}

at::Tensor ComparedOperations::adapted_linear(const at::Tensor& x, const at::Tensor& weight,
                                              const at::Tensor& bias,
                                              kernels::PreparedWeight& prepared,
                                              kernels::LowRank& factors, const at::Tensor& dropped,
                                              const kernels::Remake&) const {
  return compared(
      {"adapted_linear", Between::values}, {x, weight, bias, factors.a, factors.b, dropped},
      [&prepared, scale = factors.scale](const Operations& by, const Tensors& in) {
        kernels::LowRank same{.a = in[3], .b = in[4], .scale = scale};
        return Tensors{by.adapted_linear(in[0], in[1], in[2], prepared, same, in[5], {})};
      })[0];
}

at::Tensor ComparedOperations::gelu(const at::Tensor& x) const {
  return compared({"gelu"}, {x}, [](const Operations& by, const Tensors& in) {
    return Tensors{by.gelu(in[0])};
  })[0];
}

at::Tensor ComparedOperations::gate(kernels::GateActivation activation, const at::Tensor& gate,
                                    const at::Tensor& up) const {
  return compared({"gate"}, {gate, up}, [activation](const Operations& by, const Tensors& in) {
    return Tensors{by.gate(activation, in[0], in[1])};
  })[0];
}

at::Tensor ComparedOperations::mlp_gelu(const at::Tensor& x, const at::Tensor& w1,
                                        const at::Tensor& b1, kernels::PreparedWeight& prepared1,
                                        const at::Tensor& w2, const at::Tensor& b2,
                                        kernels::PreparedWeight& prepared2,
                                        const kernels::MlpOptions&) const {
  return compared(
      {"mlp_gelu", Between::values}, {x, w1, b1, w2, b2},
      [&prepared1, &prepared2](const Operations& by, const Tensors& in) {
        return Tensors{by.mlp_gelu(in[0], in[1], in[2], prepared1, in[3], in[4], prepared2, {})};
      })[0];
}

at::Tensor ComparedOperations::mlp_gated(const at::Tensor& x, const at::Tensor& gate,
                                         kernels::PreparedWeight& prepared_gate,
                                         const at::Tensor& up, kernels::PreparedWeight& prepared_up,
                                         const at::Tensor& down,
                                         kernels::PreparedWeight& prepared_down,
                                         const kernels::GatedMlpOptions& given) const {
  const kernels::GatedMlpOptions options{.activation = given.activation};
  return compared({"mlp_gated", Between::values}, {x, gate, up, down},
                  [&prepared_gate, &prepared_up, &prepared_down, options](const Operations& by,
                                                                          const Tensors& in) {
                    return Tensors{by.mlp_gated(in[0], in[1], prepared_gate, in[2], prepared_up,
                                                in[3], prepared_down, options)};
                  })[0];
}

at::Tensor ComparedOperations::layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                          const at::Tensor& bias, double eps,
                                          at::ScalarType out) const {
  return compared({"layer_norm"}, {x, weight, bias}, [=](const Operations& by, const Tensors& in) {
    return Tensors{by.layer_norm(in[0], in[1], in[2], eps, out)};
  })[0];
}

std::pair<at::Tensor, at::Tensor> ComparedOperations::branch_layer_norm(const at::Tensor& x,
                                                                        const at::Tensor& weight,
                                                                        const at::Tensor& bias,
                                                                        double eps,
                                                                        at::ScalarType out) const {
  const Tensors results = compared(
      {"branch_layer_norm"}, {x, weight, bias}, [=](const Operations& by, const Tensors& in) {
        const auto [stream, normalised] = by.branch_layer_norm(in[0], in[1], in[2], eps, out);
        return Tensors{stream, normalised};
      });
  return {results[0], results[1]};
}

std::pair<at::Tensor, at::Tensor> ComparedOperations::add_layer_norm(
    const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight, const at::Tensor& bias,
    double eps, at::ScalarType out) const {
  const Tensors results = compared(
      {"add_layer_norm"}, {x, y, weight, bias}, [=](const Operations& by, const Tensors& in) {
        const auto [sum, normalised] = by.add_layer_norm(in[0], in[1], in[2], in[3], eps, out);
        return Tensors{sum, normalised};
      });
  return {results[0], results[1]};
}

at::Tensor ComparedOperations::rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                        const kernels::RmsNormOptions& options,
                                        at::ScalarType out) const {
  return compared({"rms_norm"}, {x, weight}, [=](const Operations& by, const Tensors& in) {
    return Tensors{by.rms_norm(in[0], in[1], options, out)};
  })[0];
}

std::pair<at::Tensor, at::Tensor> ComparedOperations::branch_rms_norm(
    const at::Tensor& x, const at::Tensor& weight, const kernels::RmsNormOptions& options,
    at::ScalarType out) const {
  const Tensors results =
      compared({"branch_rms_norm"}, {x, weight}, [=](const Operations& by, const Tensors& in) {
        const auto [stream, normalised] = by.branch_rms_norm(in[0], in[1], options, out);
        return Tensors{stream, normalised};
      });
  return {results[0], results[1]};
}

std::pair<at::Tensor, at::Tensor> ComparedOperations::add_rms_norm(
    const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
    const kernels::RmsNormOptions& options, at::ScalarType out) const {
  const Tensors results =
      compared({"add_rms_norm"}, {x, y, weight}, [=](const Operations& by, const Tensors& in) {
        const auto [sum, normalised] = by.add_rms_norm(in[0], in[1], in[2], options, out);
        return Tensors{sum, normalised};
      });
  return {results[0], results[1]};
}

at::Tensor ComparedOperations::rotate(const at::Tensor& x, std::int64_t heads,
                                      const at::Tensor& cosines, const at::Tensor& sines,
                                      const std::vector<SampleSpan>& spans) const {
  return compared({"rotate"}, {x}, [=](const Operations& by, const Tensors& in) {
    return Tensors{by.rotate(in[0], heads, cosines, sines, spans)};
  })[0];
}

at::Tensor ComparedOperations::attention(const at::Tensor& qkv, std::int64_t heads,
                                         const kernels::AttentionOptions& options,
                                         const ForwardContext& context) const {
  return compared({"attention", Between::more}, {qkv},
                  [=](const Operations& by, const Tensors& in) {
                    return Tensors{by.attention(in[0], heads, options, context)};
                  })[0];
}

at::Tensor ComparedOperations::grouped_attention(const at::Tensor& q, const at::Tensor& k,
                                                 const at::Tensor& v,
                                                 const kernels::GroupedAttentionOptions& options,
                                                 const ForwardContext& context) const {
  return compared({"grouped_attention", Between::more}, {q, k, v},
                  [=](const Operations& by, const Tensors& in) {
                    return Tensors{by.grouped_attention(in[0], in[1], in[2], options, context)};
                  })[0];
}

at::Tensor ComparedOperations::dropout(const at::Tensor& x, double probability,
                                       const ForwardContext& context, std::int64_t site) const {
  return compared({"dropout"}, {x}, [=](const Operations& by, const Tensors& in) {
    return Tensors{by.dropout(in[0], probability, context, site)};
  })[0];
}

at::Tensor ComparedOperations::add_dropout(const at::Tensor& x, const at::Tensor& y,
                                           double probability, const ForwardContext& context,
                                           std::int64_t site) const {
  return compared({"add_dropout"}, {x, y}, [=](const Operations& by, const Tensors& in) {
    return Tensors{by.add_dropout(in[0], in[1], probability, context, site)};
  })[0];
}

at::Tensor ComparedOperations::embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                                            const at::Tensor& position_table,
                                            const std::vector<SampleSpan>& spans) const {
  return compared({"embed_tokens"}, {token_table, position_table},
                  [=](const Operations& by, const Tensors& in) {
                    return Tensors{by.embed_tokens(ids, in[0], in[1], spans)};
                  })[0];
}

Loss ComparedOperations::linear_cross_entropy(
    const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
    kernels::PreparedWeight& prepared, const kernels::LinearCrossEntropyOptions& given) const {
  kernels::LinearCrossEntropyOptions options = given;
  options.overwrite_hidden = false;  // it is read again
  const Tensors sum =
      compared({"linear_cross_entropy", Between::more}, {hidden, weight, given.bias},
               [=, &prepared](const Operations& by, const Tensors& in) {
                 kernels::LinearCrossEntropyOptions same = options;
                 same.bias = in[2];
                 return Tensors{by.linear_cross_entropy(in[0], in[1], targets, prepared, same).sum};
               });
  return {sum[0], kernels::label_weight(targets, options.loss.row_weights, options.loss.ignored)};
}

/// Log-probabilities are returned in fp64 and computed from logits in the precision of the pass,
/// which determines their bound.
at::Tensor ComparedOperations::linear_log_probabilities(
    const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
    kernels::PreparedWeight& prepared, const kernels::LogProbabilityOptions& options) const {
  const at::ScalarType judged = hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensors made = compared(
      {"linear_log_probabilities", Between::more}, {hidden, weight},
      [=, &prepared](const Operations& by, const Tensors& in) {
        return Tensors{
            by.linear_log_probabilities(in[0], in[1], targets, prepared, options).to(judged)};
      });
  return made[0].to(at::kDouble);
}

}  // namespace accrue::proof
