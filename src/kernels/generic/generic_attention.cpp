#include "kernels/generic/generic_attention.h"

#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/generic/generic_mask.h"
#include "kernels/generic/tensors.h"

namespace accrue::kernels::generic {
namespace {

/// Samples that are processed at once: [begin, begin + length) of rows [row, row + rows).
struct Piece {
  std::int64_t row, rows, begin, length;
  std::size_t span;  ///< the first of its spans
};

/// Whole rows are one piece, unless each head of each sample has a mask in memory.
std::vector<Piece> pieces_of(const AttentionPlan& plan, const at::Tensor& q) {
  const std::int64_t rows = q.size(0), length = q.size(1);
  bool whole = plan.masks.empty() && static_cast<std::int64_t>(plan.spans.size()) == rows;
  for (std::size_t i = 0; i < plan.spans.size() && whole; ++i)
    whole = plan.spans[i].row == static_cast<std::int64_t>(i) && plan.spans[i].begin == 0 &&
            plan.spans[i].end == length;
  if (whole) return {{.row = 0, .rows = rows, .begin = 0, .length = length, .span = 0}};
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < plan.spans.size(); ++i) {
    const SampleSpan& span = plan.spans[i];
    if (span.end > span.begin)
      pieces.push_back({.row = span.row,
                        .rows = 1,
                        .begin = span.begin,
                        .length = span.end - span.begin,
                        .span = i});
  }
  return pieces;
}

/// The positions of a piece of x [B, T, heads * W].
at::Tensor positions_of(const at::Tensor& x, const Piece& piece) {
  return x.narrow(0, piece.row, piece.rows).narrow(1, piece.begin, piece.length);
}
/// Those positions' heads: [rows, heads, length, W].
at::Tensor heads_of(const at::Tensor& x, const Piece& piece, std::int64_t heads) {
  return positions_of(x, piece).unflatten(2, {heads, x.size(2) / heads}).transpose(1, 2);
}
void put_heads(const at::Tensor& heads, const Piece& piece, at::Tensor& x) {
  positions_of(x, piece).unflatten(2, {heads.size(1), heads.size(3)}).transpose(1, 2).copy_(heads);
}

/// Queries, keys and values of a piece, each as [rows, heads, length, W].
struct Heads {
  at::Tensor q, k, v;
};

Heads heads_of(const AttentionPlan& plan, const Projections& of, const Piece& piece) {
  const GroupedAttentionOptions& options = plan.options;
  const auto shared = [&](const at::Tensor& x) {
    const at::Tensor heads = heads_of(x, piece, options.kv_heads);
    return options.heads == options.kv_heads
               ? heads
               : heads.repeat_interleave(options.heads / options.kv_heads, 1);
  };
  return {heads_of(of.q, piece, options.heads), shared(of.k), shared(of.v)};
}

/// Adds up the gradients of heads that share one, in `wide`.
at::Tensor summed_groups(const at::Tensor& grad, std::int64_t kv_heads, at::ScalarType wide) {
  if (grad.size(1) == kv_heads) return grad;
  return grad.unflatten(1, {kv_heads, grad.size(1) / kv_heads}).sum(2, /*keepdim=*/false, wide);
}

void put_gradients(const Backend& backend, const AttentionPlan& plan, const Heads& grads,
                   const Piece& piece, Projections& to) {
  const bool is_whole = piece.rows == to.q.size(0) && piece.length == to.q.size(1);
  if (is_whole && backend.pack_heads(grads.q, grads.k, grads.v, to)) return;
  const at::ScalarType wide = accumulation_dtype(grads.q.scalar_type());
  put_heads(grads.q, piece, to.q);
  put_heads(summed_groups(grads.k, plan.options.kv_heads, wide), piece, to.k);
  put_heads(summed_groups(grads.v, plan.options.kv_heads, wide), piece, to.v);
}

/// The one of ATen's fused kernels to use; math: none.
at::SDPBackend fused_kernel_for(const AttentionPlan& plan, const Heads& of) {
  const GroupedAttentionOptions& options = plan.options;
  if (!plan.masks.empty() || options.window > 0 || options.soft_cap != 0)
    return at::SDPBackend::math;
  if (of.q.is_cpu()) return at::SDPBackend::flash_attention;
  const auto chosen = static_cast<at::SDPBackend>(
      at::_fused_sdp_choice(of.q, of.k, of.v, {}, 0, options.causal, options.scale));
  const bool known = chosen == at::SDPBackend::flash_attention ||
                     chosen == at::SDPBackend::efficient_attention ||
                     chosen == at::SDPBackend::cudnn_attention;
  return known ? chosen : at::SDPBackend::math;
}

/// The operands of a fused kernel. On the CPU ATen's keeps probabilities in bf16, which has errors
/// of a hundredth for large scores: there fp32 is used.
Heads for_fused(const Heads& of) {
  if (!of.q.is_cpu()) return of;
  return {widened(of.q), widened(of.k), widened(of.v)};
}

/// A fused kernel's result, and the other tensors that its backward needs.
struct Fused {
  at::Tensor out, log_sums, seed, offset;
};
constexpr std::size_t kept_of_a_piece = 3;  ///< all of Fused except the result

Fused run_fused(at::SDPBackend backend, const AttentionPlan& plan, const Heads& of) {
  const bool causal = plan.options.causal;
  const double scale = plan.options.scale;
  if (of.q.is_cpu()) {
    auto [out, sums] =
        at::_scaled_dot_product_flash_attention_for_cpu(of.q, of.k, of.v, 0, causal, {}, scale);
    return {out, sums, {}, {}};
  }
  if (backend == at::SDPBackend::efficient_attention) {
    auto [out, sums, seed, offset] = at::_scaled_dot_product_efficient_attention(
        of.q, of.k, of.v, {}, /*compute_log_sumexp=*/true, 0, causal, scale);
    return {out, sums, seed, offset};
  }
  const auto made =
      backend == at::SDPBackend::cudnn_attention
          ? at::_scaled_dot_product_cudnn_attention(of.q, of.k, of.v, {},
                                                    /*compute_log_sumexp=*/true, 0, causal,
                                                    /*return_debug_mask=*/false, scale)
          : at::_scaled_dot_product_flash_attention(of.q, of.k, of.v, 0, causal,
                                                    /*return_debug_mask=*/false, scale);
  return {std::get<0>(made), std::get<1>(made), std::get<6>(made), std::get<7>(made)};
}

Heads run_fused_backward(at::SDPBackend backend, const AttentionPlan& plan, const Heads& of,
                         const Fused& fused, const at::Tensor& grad) {
  const bool causal = plan.options.causal;
  const double scale = plan.options.scale;
  const std::int64_t length = of.q.size(2);
  if (of.q.is_cpu()) {
    auto [q, k, v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, of.q, of.k, of.v, fused.out, fused.log_sums, 0, causal, {}, scale);
    return {q, k, v};
  }
  if (backend == at::SDPBackend::efficient_attention) {
    auto [q, k, v, bias] = at::_scaled_dot_product_efficient_attention_backward(
        grad, of.q, of.k, of.v, {}, fused.out, fused.log_sums, fused.seed, fused.offset, 0,
        {true, true, true, false}, causal, scale);
    return {q, k, v};
  }
  const auto made = backend == at::SDPBackend::cudnn_attention
                        ? at::_scaled_dot_product_cudnn_attention_backward(
                              grad, of.q, of.k, of.v, fused.out, fused.log_sums, fused.seed,
                              fused.offset, {}, {}, {}, length, length, 0, causal, scale)
                        : at::_scaled_dot_product_flash_attention_backward(
                              grad, of.q, of.k, of.v, fused.out, fused.log_sums, {}, {}, length,
                              length, 0, causal, fused.seed, fused.offset, scale);
  return {std::get<0>(made), std::get<1>(made), std::get<2>(made)};
}

/// The masks of a piece's heads; the piece is one sample: [1, heads, length, length].
at::Tensor dropped(const AttentionPlan& plan, const Piece& piece, const at::Tensor& like) {
  std::vector<DropoutMask> masks;
  for (std::int64_t head = 0; head < plan.options.heads; ++head)
    masks.push_back(head_mask(plan.masks[piece.span], head));
  return masks_of(masks, piece.length, piece.length, like.options()).unsqueeze(0);
}

/// The keys that a query of `length` positions does not see.
at::Tensor unseen(const GroupedAttentionOptions& options, std::int64_t length, at::Device device) {
  at::Tensor seen = at::ones({length, length}, at::TensorOptions(at::kBool).device(device));
  if (options.causal) seen = seen.tril();
  if (options.window > 0) seen = seen.triu(1 - options.window);
  return seen.logical_not();
}

/// Scores after the soft cap, and their softmax.
struct Scores {
  at::Tensor capped, probabilities;
};
Scores scores_of(const AttentionPlan& plan, const Heads& of, std::int64_t length) {
  const double cap = plan.options.soft_cap;
  at::Tensor scores = at::matmul(of.q, of.k.transpose(2, 3)).mul_(plan.options.scale);
  if (cap != 0) scores = scores.div_(cap).tanh_().mul_(cap);
  const at::Tensor seen = scores.masked_fill(unseen(plan.options, length, scores.device()),
                                             -std::numeric_limits<double>::infinity());
  return {scores, seen.softmax(-1)};
}

at::Tensor run_math(const AttentionPlan& plan, const Heads& narrow, const Piece& piece) {
  const Heads of{widened(narrow.q), widened(narrow.k), widened(narrow.v)};
  at::Tensor probabilities = scores_of(plan, of, piece.length).probabilities;
  if (!plan.masks.empty()) probabilities = probabilities * dropped(plan, piece, probabilities);
  return at::matmul(probabilities, of.v);
}

Heads run_math_backward(const AttentionPlan& plan, const Heads& narrow, const Piece& piece,
                        const at::Tensor& grad_out) {
  const Heads of{widened(narrow.q), widened(narrow.k), widened(narrow.v)};
  const at::Tensor grad = widened(grad_out);
  const Scores scores = scores_of(plan, of, piece.length);
  const at::Tensor& p = scores.probabilities;
  const at::Tensor mask = plan.masks.empty() ? at::Tensor() : dropped(plan, piece, p);
  Heads grads;
  grads.v = at::matmul((mask.defined() ? p * mask : p).transpose(2, 3), grad);
  at::Tensor of_p = at::matmul(grad, of.v.transpose(2, 3));
  if (mask.defined()) of_p = of_p.mul_(mask);
  at::Tensor of_scores = p * (of_p - (of_p * p).sum(-1, /*keepdim=*/true));
  if (const double cap = plan.options.soft_cap; cap != 0)
    of_scores = of_scores.mul_(1 - (scores.capped / cap).square_());
  grads.q = at::matmul(of_scores, of.k).mul_(plan.options.scale);
  grads.k = at::matmul(of_scores.transpose(2, 3), of.q).mul_(plan.options.scale);
  return grads;
}

}  // namespace

Attended attend(const AttentionPlan& plan, const Projections& of) {
  const std::vector<Piece> pieces = pieces_of(plan, of.q);
  Attended result;
  std::vector<at::Tensor> kept;
  for (const Piece& piece : pieces) {
    const Heads heads = heads_of(plan, of, piece);
    const at::SDPBackend kernel = fused_kernel_for(plan, heads);
    at::Tensor out;
    if (kernel == at::SDPBackend::math) {
      out = run_math(plan, heads, piece).to(of.q.scalar_type());
    } else {
      const Fused fused = run_fused(kernel, plan, for_fused(heads));
      kept.insert(kept.end(), {fused.log_sums, fused.seed, fused.offset});
      out = fused.out.to(of.q.scalar_type());
    }
    // A fused kernel's result for whole rows usually has the required layout.
    if (piece.rows == of.q.size(0) && piece.length == of.q.size(1)) {
      result.out = shaped(out.transpose(1, 2).contiguous(), of.q.sizes());
      break;
    }
    if (!result.out.defined())
      result.out = zeros_where_uncovered(plan, of.q.sizes(), of.q.options());
    put_heads(out, piece, result.out);
  }
  if (!result.out.defined()) result.out = at::zeros(of.q.sizes(), of.q.options());
  result.kept = {result.out};
  result.kept.insert(result.kept.end(), kept.begin(), kept.end());
  return result;
}

void attend_backward(const Backend& backend, const AttentionPlan& plan, const Projections& of,
                     const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                     Projections& grads) {
  std::size_t next = 1;
  for (const Piece& piece : pieces_of(plan, of.q)) {
    const Heads heads = heads_of(plan, of, piece);
    const at::Tensor grad = heads_of(grad_out, piece, plan.options.heads);
    const at::SDPBackend kernel = fused_kernel_for(plan, heads);
    if (kernel == at::SDPBackend::math) {
      put_gradients(backend, plan, run_math_backward(plan, heads, piece, grad), piece, grads);
      continue;
    }
    const Heads given = for_fused(heads);
    const Fused fused{
        .out = heads_of(kept.at(0), piece, plan.options.heads).to(given.q.scalar_type()),
        .log_sums = kept.at(next),
        .seed = kept.at(next + 1),
        .offset = kept.at(next + 2)};
    next += kept_of_a_piece;
    put_gradients(backend, plan,
                  run_fused_backward(kernel, plan, given, fused, grad.to(given.q.scalar_type())),
                  piece, grads);
  }
}

}  // namespace accrue::kernels::generic
