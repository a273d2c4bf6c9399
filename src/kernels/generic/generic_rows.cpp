#include "kernels/generic/generic_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/generic/generic_mask.h"
#include "kernels/generic/tensors.h"

namespace accrue::kernels::generic {
namespace {

constexpr const char* gelu_form = "tanh";

at::Tensor opened(GateActivation activation, const at::Tensor& gate) {
  return activation == GateActivation::silu ? at::silu(gate) : at::gelu(gate, gelu_form);
}

at::Tensor closed(GateActivation activation, const at::Tensor& grad, const at::Tensor& gate) {
  return activation == GateActivation::silu ? at::silu_backward(grad, gate)
                                            : at::gelu_backward(grad, gate, gelu_form);
}

/// Whether the parts are all rows of x in order, each as long as the first.
bool are_even(const Parts& parts, std::int64_t rows) {
  if (parts.empty() || parts.front().length * static_cast<std::int64_t>(parts.size()) != rows)
    return false;
  std::int64_t next = 0;
  for (const Part& part : parts) {
    if (part.begin != next || part.length != parts.front().length) return false;
    next += part.length;
  }
  return true;
}

std::int64_t covered_rows(const Parts& parts) {
  std::int64_t rows = 0;
  for (const Part& part : parts) rows += part.length;
  return rows;
}

/// The rows in the parts, in order of the parts; undefined if they are all `rows`.
at::Tensor rows_of(const Parts& parts, std::int64_t rows, at::Device device) {
  if (are_even(parts, rows)) return {};
  std::vector<std::int64_t> places;
  for (const Part& part : parts)
    for (std::int64_t t = 0; t < part.length; ++t) places.push_back(part.begin + t);
  return numbers_on(places, device);
}

/// The position in its part of each of those rows.
at::Tensor positions_in(const Parts& parts, at::Device device) {
  std::vector<std::int64_t> positions;
  for (const Part& part : parts)
    for (std::int64_t t = 0; t < part.length; ++t) positions.push_back(t);
  return numbers_on(positions, device);
}

at::Tensor selected(const at::Tensor& x, const at::Tensor& rows) {
  return rows.defined() ? x.index_select(0, rows) : x;
}

/// Rows of tables [positions, half] for each column of x [B, T], by its position; 0 if that is
/// negative.
class PositionRows {
 public:
  PositionRows(const std::vector<std::int64_t>& positions, std::int64_t length, at::Device device)
      : length_(length), device_(device) {
    for (std::size_t i = 0; i < positions.size() && counts_in_rows_; ++i)
      counts_in_rows_ = positions[i] == static_cast<std::int64_t>(i) % length;
    if (!counts_in_rows_) places_ = numbers_on(positions, device);
  }

  /// [B, T, 1, half], or [1, T, 1, half] if each row of x counts from 0.
  at::Tensor of(const at::Tensor& table, std::int64_t half) const {
    const at::Tensor there = copied_to(table, device_);
    if (counts_in_rows_) return there.narrow(0, 0, length_).view({1, length_, 1, half});
    return there.index_select(0, places_.clamp_min(0))
        .masked_fill_(places_.lt(0).unsqueeze(1), 0)
        .view({-1, length_, 1, half});
  }

 private:
  std::int64_t length_;
  at::Device device_;
  bool counts_in_rows_ = true;
  at::Tensor places_;  ///< [B * T], unless each row counts from 0
};

}  // namespace

/// On a device index_add_ adds by atomics in any order, but index_put_ sorts and does not; on the
/// CPU it is the other way round.
void add_at(at::Tensor& sums, const at::Tensor& index, const at::Tensor& values) {
  if (sums.is_cpu()) {
    sums.index_add_(0, index, values);
    return;
  }
  c10::List<std::optional<at::Tensor>> indices;
  indices.push_back(index);
  sums.index_put_(indices, values, /*accumulate=*/true);
}

void gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up,
          at::Tensor& out) {
  out.copy_(opened(activation, widened(gate)).mul_(widened(up)));
}

void gate_backward(GateActivation activation, const at::Tensor& grad_out, const at::Tensor& gate,
                   const at::Tensor& up, elementwise::GateResults& results) {
  const at::Tensor grad = widened(grad_out), wide_gate = widened(gate), wide_up = widened(up);
  const at::Tensor opening = opened(activation, wide_gate);
  // Results may have the operands' memory: all are computed before any is written.
  const at::Tensor out = opening * wide_up, grad_up = opening * grad,
                   grad_gate = closed(activation, grad * wide_up, wide_gate);
  results.out.copy_(out);
  results.grad_up.copy_(grad_up);
  results.grad_gate.copy_(grad_gate);
}

at::Tensor drop(const at::Tensor& source, const std::vector<MaskedRows>& parts,
                at::ScalarType dtype, const at::Tensor& added) {
  const at::Tensor x = source.contiguous();
  const std::int64_t columns = x.size(-1);
  const at::Tensor from = x.view({-1, columns});
  at::Tensor out = added.defined() ? added.to(dtype, /*non_blocking=*/false, /*copy=*/true)
                                   : at::zeros_like(x, dtype);
  at::Tensor to = out.view({-1, columns});
  const at::TensorOptions wide = x.options().dtype(accumulation_dtype(x.scalar_type()));
  // Consecutive samples of equal length are one operation.
  for (std::size_t first = 0; first < parts.size();) {
    std::size_t last = first;
    std::vector<DropoutMask> masks;
    std::int64_t next = parts[first].begin;
    while (last < parts.size() && parts[last].begin == next &&
           parts[last].rows == parts[first].rows) {
      masks.push_back(parts[last].mask);
      next += parts[last].rows;
      ++last;
    }
    const std::int64_t begin = parts[first].begin, rows = next - begin;
    const at::Tensor mask = masks_of(masks, parts[first].rows, columns, wide).view({rows, columns});
    to.narrow(0, begin, rows).add_(from.narrow(0, begin, rows) * mask);
    first = last;
  }
  return out;
}

at::Tensor rotate(const at::Tensor& source, std::int64_t heads, const at::Tensor& cosines,
                  const at::Tensor& sines, const std::vector<std::int64_t>& positions,
                  bool backwards) {
  const at::Tensor x = source.contiguous();
  const std::int64_t half = x.size(2) / heads / 2;
  const PositionRows rows(positions, x.size(1), x.device());
  const at::Tensor c = rows.of(cosines, half),
                   s = backwards ? rows.of(sines, half).neg() : rows.of(sines, half);
  const at::Tensor pairs = widened(x).unflatten(-1, {heads, 2, half});
  const at::Tensor first = pairs.select(-2, 0), second = pairs.select(-2, 1);
  const at::Tensor turned = at::stack({first * c - second * s, second * c + first * s}, -2);
  return shaped(turned.to(x.scalar_type()), x.sizes());
}

at::Tensor look_up(const Parts& parts, const at::Tensor& ids, const at::Tensor& tokens,
                   const at::Tensor& positions) {
  const at::Tensor index = copied_to(ids.reshape({-1}), tokens.device());
  at::Tensor rows = widened(tokens.index_select(0, index));
  const std::int64_t channels = tokens.size(1);
  if (are_even(parts, ids.numel())) {
    const std::int64_t length = parts.front().length;
    if (positions.defined())
      rows.view({-1, length, channels}).add_(widened(positions.narrow(0, 0, length)));
    return shaped(rows, {ids.size(0), ids.size(1), channels});
  }
  const at::Tensor places = rows_of(parts, ids.numel(), tokens.device());
  at::Tensor x = at::zeros_like(rows);
  at::Tensor covered = selected(rows, places);
  if (positions.defined())
    covered = covered + widened(positions.index_select(0, positions_in(parts, tokens.device())));
  return shaped(x.index_copy_(0, places, covered), {ids.size(0), ids.size(1), channels});
}

void add_rows(const Backend& backend, const Parts& parts, const at::Tensor& ids,
              const at::Tensor& grad, at::Tensor& table) {
  if (covered_rows(parts) == 0) return;
  const at::Tensor places = rows_of(parts, ids.numel(), table.device());
  const at::Tensor index = copied_to(ids.reshape({-1}), table.device());
  backend.add_at(table, selected(index, places),
                 selected(grad.reshape({-1, table.size(1)}), places).to(table.scalar_type()));
}

void add_positions(const Backend& backend, const Parts& parts, const at::Tensor& grad,
                   at::Tensor& table, bool accumulate) {
  if (covered_rows(parts) == 0) return;
  const std::int64_t channels = table.size(1);
  std::int64_t longest = 0;
  for (const Part& part : parts) longest = std::max(longest, part.length);
  const at::Tensor rows = grad.reshape({-1, channels});
  at::Tensor sums;
  if (are_even(parts, rows.size(0))) {
    sums = rows.view({-1, longest, channels}).sum(0);
  } else {
    sums = at::zeros({longest, channels}, table.options());
    backend.add_at(
        sums, positions_in(parts, table.device()),
        selected(rows, rows_of(parts, rows.size(0), table.device())).to(table.scalar_type()));
  }
  at::Tensor to = table.narrow(0, 0, longest);
  accumulate ? to.add_(sums) : to.copy_(sums);
}

}  // namespace accrue::kernels::generic
