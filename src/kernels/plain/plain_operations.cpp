#include "kernels/plain/plain_operations.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>
#include <vector>

#include "kernels/aten_element.h"
#include "kernels/blocks/block_matrix.h"
#include "kernels/plain/plain_mask.h"
#include "kernels/spans.h"

namespace accrue::kernels {
namespace {

constexpr const char* gelu_form = "tanh";

/// Rounds `x` to the dtype of operands, and continues in the precision of `like`'s products.
at::Tensor widened(const at::Tensor& x) {
  return is_sixteen_bit(x.scalar_type()) ? x.to(at::kFloat) : x;
}

/// A master's values as operands of `dtype`, in the master's dtype; its gradient passes unrounded.
/// Frozen weights in bf16 or in blocks are converted.
at::Tensor as_operand(const at::Tensor& master, at::ScalarType dtype) {
  if (is_unpacked_by_products(master, dtype)) return widened(unpacked(master, dtype));
  if (!is_sixteen_bit(dtype) || master.scalar_type() == dtype) return widened(master);
  const at::Tensor values = master.detach();
  return master - (values - values.to(dtype).to(master.scalar_type()));
}

at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  at::Tensor y = at::matmul(widened(x), as_operand(weight, x.scalar_type()).t());
  if (bias.defined()) y = y + bias;
  return y.to(x.scalar_type());
}

/// The mask of a sample's rows of x [B, T, C] for each span, at the place of its span; 0 elsewhere.
at::Tensor dropout_mask(const at::Tensor& x, const DropoutSite& site,
                        const ForwardContext& context) {
  const std::int64_t length = x.dim() == 3 ? x.size(1) : 1, columns = x.size(-1);
  const at::ScalarType dtype = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor mask = at::zeros({x.size(0), length, columns}, x.options().dtype(dtype));
  for (const SampleSpan& span : named_spans("dropout", context, x.size(0), length))
    mask.select(0, span.row)
        .narrow(0, span.begin, span.end - span.begin)
        .copy_(
            plain_mask(sample_mask(site, span.sample_id), span.end - span.begin, columns, dtype));
  return mask.view(x.sizes());
}

/// x times the mask and its scale, in the wide precision.
at::Tensor dropped(const at::Tensor& x, double probability, const ForwardContext& context,
                   std::int64_t site) {
  if (!context.training || probability == 0) return widened(x);
  return widened(x) * dropout_mask(x, {probability, context.seed, context.window, site}, context);
}

/// q, k or v of packed rows [..., T, 3 * C] as [..., heads, T, C / heads].
at::Tensor part_of(const at::Tensor& qkv, std::int64_t heads, std::int64_t part) {
  const std::int64_t channels = qkv.size(-1) / 3;
  return qkv.narrow(-1, part * channels, channels)
      .unflatten(-1, {heads, channels / heads})
      .transpose(-2, -3);
}

/// [..., heads, T, C / heads] as rows [..., T, C].
at::Tensor joined_heads(const at::Tensor& x) { return x.transpose(-2, -3).flatten(-2); }

at::Tensor attend(const at::Tensor& qkv, std::int64_t heads, bool causal) {
  return joined_heads(at::scaled_dot_product_attention(
      part_of(qkv, heads, 0), part_of(qkv, heads, 1), part_of(qkv, heads, 2), {}, 0, causal));
}

/// One sample's rows [T, 3 * C], with probabilities dropped by `mask`.
at::Tensor attend_dropping(const at::Tensor& qkv, std::int64_t heads, bool causal,
                           const DropoutMask& mask) {
  const at::Tensor q = part_of(qkv, heads, 0), k = part_of(qkv, heads, 1),
                   v = part_of(qkv, heads, 2);
  const std::int64_t length = qkv.size(0);
  at::Tensor scores = at::matmul(q, k.transpose(-1, -2)) / std::sqrt(double(q.size(-1)));
  if (causal)
    scores = scores.masked_fill(
        at::ones({length, length}, scores.options().dtype(at::kBool)).triu(1), -INFINITY);
  std::vector<at::Tensor> masks;
  for (std::int64_t head = 0; head < heads; ++head)
    masks.push_back(plain_mask(head_mask(mask, head), length, length, qkv.scalar_type()));
  return joined_heads(at::matmul(scores.softmax(-1) * at::stack(masks).to(scores.device()), v));
}

at::Tensor gated(GateActivation activation, const at::Tensor& gate) {
  return activation == GateActivation::silu ? at::silu(gate) : at::gelu(gate, gelu_form);
}

/// The position of each column of [rows, length] in its sample, and 1 if a sample covers it.
struct Positions {
  at::Tensor index, covered;
};

Positions positions_of(const std::vector<SampleSpan>& spans, std::int64_t rows,
                       std::int64_t length) {
  Positions positions{at::zeros({rows, length}, at::kLong), at::zeros({rows, length}, at::kLong)};
  for (const SampleSpan& span : spans) {
    const std::int64_t size = span.end - span.begin;
    const auto place = [&](const at::Tensor& of) {
      return of.select(0, span.row).narrow(0, span.begin, size);
    };
    place(positions.index).copy_(at::arange(size, at::kLong));
    place(positions.covered).fill_(1);
  }
  return positions;
}

/// Rows [..., T, heads * width] as [..., heads, T, width].
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) {
  return x.unflatten(-1, {heads, x.size(-1) / heads}).transpose(-2, -3);
}

/// The keys that a query of `length` positions sees, [length, length].
at::Tensor seen_keys(std::int64_t length, const GroupedAttentionOptions& options,
                     at::Device device) {
  at::Tensor seen = at::ones({length, length}, at::TensorOptions(at::kBool).device(device));
  if (options.causal) seen = seen.tril();
  if (options.window > 0) seen = seen.triu(1 - options.window);
  return seen;
}

/// Samples [B, T, C], with probabilities dropped by `mask`, if given.
at::Tensor attend_in_groups(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const GroupedAttentionOptions& options, const DropoutMask* mask) {
  const std::int64_t group = options.heads / options.kv_heads, length = q.size(-2);
  const at::Tensor queries = split_heads(q, options.heads),
                   keys = split_heads(k, options.kv_heads).repeat_interleave(group, -3),
                   values = split_heads(v, options.kv_heads).repeat_interleave(group, -3);
  const double scale =
      options.scale == 0 ? 1 / std::sqrt(static_cast<double>(queries.size(-1))) : options.scale;
  if (options.soft_cap == 0 && mask == nullptr) {
    const std::optional<at::Tensor> seen =
        options.window > 0 ? std::optional(seen_keys(length, options, q.device())) : std::nullopt;
    return joined_heads(at::scaled_dot_product_attention(
        queries, keys, values, seen, 0, options.causal && options.window == 0, scale));
  }
  at::Tensor scores = at::matmul(queries * scale, keys.transpose(-1, -2));
  if (options.soft_cap != 0) scores = options.soft_cap * at::tanh(scores / options.soft_cap);
  at::Tensor probabilities =
      scores.masked_fill(seen_keys(length, options, q.device()).logical_not(), -INFINITY)
          .softmax(-1);
  if (mask != nullptr) {
    std::vector<at::Tensor> masks;
    for (std::int64_t head = 0; head < options.heads; ++head)
      masks.push_back(plain_mask(head_mask(*mask, head), length, length, q.scalar_type()));
    probabilities = probabilities * at::stack(masks).to(q.device());
  }
  return joined_heads(at::matmul(probabilities, values));
}

class PlainOperations final : public Operations {
 public:
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    PreparedWeight&, const Remake&) const override {
    return affine(x, weight, bias);
  }
  at::Tensor adapted_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            PreparedWeight&, LowRank& factors, const at::Tensor& dropped,
                            const Remake&) const override {
    const at::ScalarType dtype = x.scalar_type();
    const at::Tensor& into_a = dropped.defined() ? dropped : x;
    // The value between the factors is rounded, as in the kernels, which keep it for backward.
    const at::Tensor between =
        at::matmul(widened(into_a), as_operand(factors.a, dtype).t()).to(dtype) * factors.scale;
    const at::Tensor added = at::matmul(widened(between), as_operand(factors.b, dtype).t());
    return (widened(affine(x, weight, bias)) + added).to(dtype);
  }
  at::Tensor gelu(const at::Tensor& x) const override {
    return at::gelu(widened(x), gelu_form).to(x.scalar_type());
  }
  at::Tensor gate(GateActivation activation, const at::Tensor& gate,
                  const at::Tensor& up) const override {
    return (gated(activation, widened(gate)) * widened(up)).to(gate.scalar_type());
  }
  at::Tensor mlp_gelu(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& b1,
                      PreparedWeight&, const at::Tensor& w2, const at::Tensor& b2, PreparedWeight&,
                      const MlpOptions&) const override {
    const at::Tensor hidden = at::gelu(widened(affine(x, w1, b1)), gelu_form).to(x.scalar_type());
    return affine(hidden, w2, b2);
  }
  at::Tensor mlp_gated(const at::Tensor& x, const at::Tensor& gate, PreparedWeight&,
                       const at::Tensor& up, PreparedWeight&, const at::Tensor& down,
                       PreparedWeight&, const GatedMlpOptions& options) const override {
    const at::Tensor opened = gated(options.activation, widened(affine(x, gate, {})));
    return affine((opened * widened(affine(x, up, {}))).to(x.scalar_type()), down, {});
  }
  at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        double eps, at::ScalarType out) const override {
    return at::layer_norm(x, {x.size(-1)}, weight, bias, eps).to(out);
  }
  std::pair<at::Tensor, at::Tensor> branch_layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                      const at::Tensor& bias, double eps,
                                                      at::ScalarType out) const override {
    return {x, layer_norm(x, weight, bias, eps, out)};
  }
  std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y,
                                                   const at::Tensor& weight, const at::Tensor& bias,
                                                   double eps, at::ScalarType out) const override {
    const at::Tensor sum = x + y.to(x.scalar_type());
    return {sum, layer_norm(sum, weight, bias, eps, out)};
  }
  at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, const RmsNormOptions& options,
                      at::ScalarType out) const override {
    const at::Tensor wide = widened(x);
    const at::Tensor normal =
        wide * (wide.square().mean(-1, /*keepdim=*/true) + options.eps).rsqrt();
    return (normal * (weight + options.offset)).to(out);
  }
  std::pair<at::Tensor, at::Tensor> branch_rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                                    const RmsNormOptions& options,
                                                    at::ScalarType out) const override {
    return {x, rms_norm(x, weight, options, out)};
  }
  std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y,
                                                 const at::Tensor& weight,
                                                 const RmsNormOptions& options,
                                                 at::ScalarType out) const override {
    const at::Tensor sum = x + y.to(x.scalar_type());
    return {sum, rms_norm(sum, weight, options, out)};
  }
  at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                    const at::Tensor& sines, const std::vector<SampleSpan>& spans) const override {
    const std::int64_t rows = x.size(0), length = x.size(1);
    const Positions positions =
        positions_of(spans_or_rows("rotate", spans, rows, length), rows, length);
    const auto at_positions = [&](const at::Tensor& table) {
      return (table.index_select(0, positions.index.flatten().to(table.device())) *
              positions.covered.view({-1, 1}).to(table.options()))
          .view({rows, length, 1, table.size(1)})
          .to(x.device());
    };
    const at::Tensor pairs = widened(x).unflatten(-1, {heads, 2, x.size(-1) / heads / 2});
    const at::Tensor first = pairs.select(-2, 0), second = pairs.select(-2, 1);
    const at::Tensor c = at_positions(cosines), s = at_positions(sines);
    return at::stack({first * c - second * s, second * c + first * s}, -2)
        .flatten(-3)
        .to(x.scalar_type());
  }
  at::Tensor attention(const at::Tensor& qkv, std::int64_t heads, const AttentionOptions& options,
                       const ForwardContext& context) const override {
    const at::Tensor wide = widened(qkv);
    const bool drops = context.training && options.dropout > 0;
    if (context.spans.empty() && !drops)
      return attend(wide, heads, options.causal).to(qkv.scalar_type());
    const std::int64_t rows = qkv.size(0), length = qkv.size(1);
    const std::vector<SampleSpan> spans =
        drops ? named_spans("attention", context, rows, length)
              : spans_or_rows("attention", context.spans, rows, length);
    const DropoutSite site{options.dropout, context.seed, context.window, options.site};
    const at::Tensor out = at::zeros({rows, length, qkv.size(2) / 3}, wide.options());
    for (const SampleSpan& span : spans) {
      const auto rows_of = [&](const at::Tensor& x) {
        return x.select(0, span.row).narrow(0, span.begin, span.end - span.begin);
      };
      const at::Tensor own = rows_of(wide);
      rows_of(out).copy_(
          drops ? attend_dropping(own, heads, options.causal, sample_mask(site, span.sample_id))
                : attend(own.unsqueeze(0), heads, options.causal).squeeze(0));
    }
    return out.to(qkv.scalar_type());
  }
  at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const GroupedAttentionOptions& options,
                               const ForwardContext& context) const override {
    const at::Tensor queries = widened(q), keys = widened(k), values = widened(v);
    const bool drops = context.training && options.dropout > 0;
    if (context.spans.empty() && !drops)
      return attend_in_groups(queries, keys, values, options, nullptr).to(q.scalar_type());
    const std::int64_t rows = q.size(0), length = q.size(1);
    const std::vector<SampleSpan> spans =
        drops ? named_spans("grouped_attention", context, rows, length)
              : spans_or_rows("grouped_attention", context.spans, rows, length);
    const DropoutSite site{options.dropout, context.seed, context.window, options.site};
    const at::Tensor out = at::zeros(q.sizes(), queries.options());
    for (const SampleSpan& span : spans) {
      const auto rows_of = [&](const at::Tensor& x) {
        return x.narrow(0, span.row, 1).narrow(1, span.begin, span.end - span.begin);
      };
      const DropoutMask mask = drops ? sample_mask(site, span.sample_id) : DropoutMask{};
      rows_of(out).copy_(attend_in_groups(rows_of(queries), rows_of(keys), rows_of(values), options,
                                          drops ? &mask : nullptr));
    }
    return out.to(q.scalar_type());
  }
  at::Tensor dropout(const at::Tensor& x, double probability, const ForwardContext& context,
                     std::int64_t site) const override {
    return dropped(x, probability, context, site).to(x.scalar_type());
  }
  at::Tensor add_dropout(const at::Tensor& x, const at::Tensor& y, double probability,
                         const ForwardContext& context, std::int64_t site) const override {
    return (x + dropped(y, probability, context, site)).to(x.scalar_type());
  }
  at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                          const at::Tensor& position_table,
                          const std::vector<SampleSpan>& spans) const override {
    const std::int64_t rows = ids.size(0), length = ids.size(1);
    const Positions positions =
        positions_of(spans_or_rows("embed_tokens", spans, rows, length), rows, length);
    const at::Device device = token_table.device();
    at::Tensor x = widened(at::embedding(token_table, ids.to(device)));
    if (position_table.defined())
      x = x + widened(at::embedding(position_table, positions.index.to(device)));
    return x * positions.covered.unsqueeze(-1).to(x.options());
  }
  Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& targets, PreparedWeight&,
                            const LinearCrossEntropyOptions& options) const override {
    const at::Tensor operand = as_operand(weight, hidden.scalar_type());
    at::Tensor logits = at::matmul(widened(hidden), operand.t());
    if (options.bias.defined()) logits = logits + options.bias;
    return cross_entropy(logits, targets, options.loss);
  }

  at::Tensor linear_log_probabilities(const at::Tensor& hidden, const at::Tensor& weight,
                                      const at::Tensor& targets, PreparedWeight&,
                                      const LogProbabilityOptions& options) const override {
    const at::Tensor operand = as_operand(weight, hidden.scalar_type());
    at::Tensor logits = at::matmul(widened(hidden), operand.t());
    if (options.soft_cap != 0) logits = options.soft_cap * at::tanh(logits / options.soft_cap);
    const at::Tensor labels = targets.to(logits.device()), ignored = labels.eq(options.ignored);
    return at::log_softmax(logits, -1, at::kDouble)
        .gather(-1, labels.masked_fill(ignored, 0).unsqueeze(-1))
        .squeeze(-1)
        .masked_fill(ignored, 0);
  }
};

}  // namespace

const Operations& plain_operations() {
  static const PlainOperations plain;
  return plain;
}

}  // namespace accrue::kernels
