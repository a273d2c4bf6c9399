#include "kernels/rows/elementwise.h"

#include <ATen/Parallel.h>

#include <array>
#include <string>

#include "accrue/core/error.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/backend.h"
#include "kernels/cpu_passes.h"
#include "kernels/grain.h"
#include "kernels/rows/gate_simd.h"
#include "kernels/rows/row_simd.h"

namespace accrue::kernels::elementwise {
namespace {

void expect_alike(const at::Tensor& expected, const at::Tensor& received,
                  std::string_view operation) {
  if (received.is_contiguous() && expected.is_contiguous() &&
      received.numel() == expected.numel() && received.scalar_type() == expected.scalar_type())
    return;
  throw usage_error(operation, "contiguous tensors of one dtype and size",
                    std::to_string(expected.numel()) + " and " + std::to_string(received.numel()) +
                        " elements of " + c10::toString(expected.scalar_type()) + " and " +
                        c10::toString(received.scalar_type()),
                    "passing tensors made by empty_like");
}

/// Sums of a block of columns are computed here, so that each call rounds at its own magnitude and
/// not at that of the contents of `out`.
constexpr std::int64_t block_columns = 512;

template <class T>
void sum_columns(const at::Tensor& g, at::Tensor& out, std::int64_t begin, std::int64_t end) {
  const Element type = element_of(g.scalar_type(), "column_sum");
  const Element sum_type = element_of(out.scalar_type(), "column_sum");
  std::array<T, block_columns> sums;
  for (std::int64_t column = begin; column < end; column += block_columns) {
    const auto columns = static_cast<std::size_t>(std::min(block_columns, end - column));
    sums.fill(0);
    rows::add_columns(type, element(g, column), static_cast<std::size_t>(g.size(0)),
                      static_cast<std::size_t>(g.size(1)), columns, sums.data());
    rows::add_columns(sum_type, sums.data(), 1, columns, columns, element(out, column));
  }
}

}  // namespace

void gelu(const at::Tensor& pre, at::Tensor& out) {
  expect_alike(pre, out, "gelu");
  backend_of(pre).gelu(pre, out);
}

void gelu_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& grad_pre) {
  expect_alike(pre, grad_out, "gelu_backward");
  expect_alike(pre, grad_pre, "gelu_backward");
  backend_of(pre).gelu_backward(grad_out, pre, grad_pre);
}

at::Tensor gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& out,
                              at::Tensor& grad_pre) {
  expect_alike(pre, grad_out, "gelu_with_backward");
  expect_alike(pre, out, "gelu_with_backward");
  expect_alike(pre, grad_pre, "gelu_with_backward");
  return backend_of(pre).gelu_with_backward(grad_out, pre, out, grad_pre);
}

void gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up,
          at::Tensor& out) {
  expect_alike(gate, up, "gate");
  expect_alike(gate, out, "gate");
  backend_of(gate).gate(activation, gate, up, out);
}

void gate_backward(GateActivation activation, const at::Tensor& grad_out, const at::Tensor& gate,
                   const at::Tensor& up, GateResults& results) {
  for (const at::Tensor& tensor : {grad_out, up, results.out, results.grad_gate, results.grad_up})
    expect_alike(gate, tensor, "gate_backward");
  backend_of(gate).gate_backward(activation, grad_out, gate, up, results);
}

void column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate) {
  if (g.dim() != 2 || !g.is_contiguous() || !out.is_contiguous() || out.numel() != g.size(-1) ||
      out.scalar_type() != accumulation_dtype(g.scalar_type()))
    throw usage_error("column_sum", "g [M, N] and out [N] in fp32 (fp64 for fp64), contiguous",
                      "out of " + std::to_string(out.numel()) + " elements of " +
                          c10::toString(out.scalar_type()),
                      "allocating out with one element per column");
  backend_of(g).column_sum(g, out, accumulate);
}

}  // namespace accrue::kernels::elementwise

namespace accrue::kernels {

void cpu::gelu(const at::Tensor& pre, at::Tensor& out) {
  RECORD_FUNCTION("accrue::gelu", span_of({pre, out}));
  const Element type = element_of(pre.scalar_type(), "gelu");
  at::parallel_for(0, pre.numel(), grain_elements, [&](std::int64_t begin, std::int64_t end) {
    rows::gelu(type, element(pre, begin), element(out, begin),
               static_cast<std::size_t>(end - begin));
  });
}

void cpu::gelu_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& grad_pre) {
  RECORD_FUNCTION("accrue::gelu_backward", span_of({grad_out, pre, grad_pre}));
  const Element type = element_of(pre.scalar_type(), "gelu_backward");
  at::parallel_for(0, pre.numel(), grain_elements, [&](std::int64_t begin, std::int64_t end) {
    rows::gelu_backward(type, element(grad_out, begin), element(pre, begin),
                        element(grad_pre, begin), static_cast<std::size_t>(end - begin));
  });
}

at::Tensor cpu::gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre,
                                   at::Tensor& out, at::Tensor& grad_pre) {
  RECORD_FUNCTION("accrue::gelu_with_backward", span_of({grad_out, pre, out, grad_pre}));
  const Element type = element_of(pre.scalar_type(), "gelu_with_backward");
  at::parallel_for(0, pre.numel(), grain_elements, [&](std::int64_t begin, std::int64_t end) {
    rows::gelu_with_backward(type, element(grad_out, begin), element(pre, begin),
                             element(out, begin), element(grad_pre, begin),
                             static_cast<std::size_t>(end - begin));
  });
  return {};
}

void cpu::gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up,
               at::Tensor& out) {
  RECORD_FUNCTION("accrue::gate", span_of({gate, up, out}));
  const Element type = element_of(gate.scalar_type(), "gate");
  at::parallel_for(0, gate.numel(), grain_elements, [&](std::int64_t begin, std::int64_t end) {
    rows::gate({.activation = activation,
                .type = type,
                .size = static_cast<std::size_t>(end - begin),
                .gate = element(gate, begin),
                .up = element(up, begin),
                .out = element(out, begin)});
  });
}

void cpu::gate_backward(GateActivation activation, const at::Tensor& grad_out,
                        const at::Tensor& gate, const at::Tensor& up,
                        elementwise::GateResults& results) {
  RECORD_FUNCTION("accrue::gate_backward",
                  span_of({grad_out, gate, up, results.out, results.grad_gate, results.grad_up}));
  const Element type = element_of(gate.scalar_type(), "gate_backward");
  at::parallel_for(0, gate.numel(), grain_elements, [&](std::int64_t begin, std::int64_t end) {
    rows::gate_backward({.activation = activation,
                         .type = type,
                         .size = static_cast<std::size_t>(end - begin),
                         .grad_out = element(grad_out, begin),
                         .gate = element(gate, begin),
                         .up = element(up, begin),
                         .out = element(results.out, begin),
                         .grad_gate = element(results.grad_gate, begin),
                         .grad_up = element(results.grad_up, begin)});
  });
}

void cpu::column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate) {
  RECORD_FUNCTION("accrue::column_sum", span_of({g, out}));
  if (!accumulate) out.zero_();
  constexpr std::int64_t group = 64;  // columns; whole cache lines for each thread
  const std::int64_t columns = g.size(1), groups = (columns + group - 1) / group;
  at::parallel_for(0, groups, grain_of(group * g.size(0)),
                   [&](std::int64_t begin, std::int64_t end) {
                     const std::int64_t last = std::min(columns, end * group);
                     if (out.scalar_type() == at::kDouble)
                       elementwise::sum_columns<double>(g, out, begin * group, last);
                     else
                       elementwise::sum_columns<float>(g, out, begin * group, last);
                   });
}

}  // namespace accrue::kernels
