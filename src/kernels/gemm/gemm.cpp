#include "kernels/gemm/gemm.h"

#include <optional>

#include "accrue/core/error.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/backend.h"
#include "kernels/cpu_passes.h"
#include "kernels/gemm/aten_gemm.h"
#include "kernels/gemm/matvec.h"
#include "kernels/gemm/onednn_gemm.h"
#include "kernels/gemm/packed_gemm.h"
#include "kernels/gemm/widened_gemm.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

std::string product_text(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  return text_of(out) + " = " + text_of(a) + " x " + text_of(b);
}

bool shapes_agree(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  const std::int64_t dimensions = out.dim();
  if (dimensions < 2 || dimensions > 4 || a.dim() != dimensions || b.dim() != dimensions)
    return false;
  for (std::int64_t i = 0; i < dimensions - 2; ++i)
    if (a.size(i) != out.size(i) || b.size(i) != out.size(i)) return false;
  return a.size(-2) == out.size(-2) && a.size(-1) == b.size(-2) && b.size(-1) == out.size(-1);
}

bool dtypes_agree(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.device() != b.device() || a.device() != out.device())
    return false;
  return out.scalar_type() == a.scalar_type() ||
         (out.scalar_type() == at::kFloat && is_sixteen_bit(a.scalar_type()));
}

void expect_operands(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (!shapes_agree(out, a, b))
    throw usage_error("matmul", "out [..., M, N], a [..., M, K] and b [..., K, N]",
                      product_text(out, a, b),
                      "transposing an operand or checking the layer's sizes");
  if (!dtypes_agree(out, a, b))
    throw usage_error("matmul",
                      "operands of one dtype and device, out of theirs or fp32 for bf16 and fp16",
                      product_text(out, a, b), "converting one of them");
}

void expect_bias(const at::Tensor& bias, const at::Tensor& out, const at::Tensor& a) {
  const bool has_dtype =
      bias.defined() && (bias.scalar_type() == a.scalar_type() || bias.scalar_type() == at::kFloat);
  if (has_dtype && bias.dim() == 1 && bias.size(0) == out.size(-1)) return;
  throw usage_error("matmul", "a bias of N elements in fp32 or the operands' dtype", text_of(bias),
                    "gemm_out for a product without one");
}

std::optional<onednn::Type> onednn_type(at::ScalarType dtype) {
  if (dtype == at::kFloat) return onednn::Type::fp32;
  if (dtype == at::kBFloat16) return onednn::Type::bf16;
  return std::nullopt;
}

/// The strides of the last two dimensions. A dimension of size 1 has any stride in ATen, but oneDNN
/// requires a possible stride of a matrix. Nothing if neither stride is 1 or rows overlap.
std::optional<std::pair<std::int64_t, std::int64_t>> matrix_strides(const at::Tensor& tensor) {
  const std::int64_t rows = tensor.size(-2), columns = tensor.size(-1);
  const std::int64_t row = tensor.stride(-2), column = tensor.stride(-1);
  if ((column == 1 || columns == 1) && (row >= columns || rows == 1))
    return {{rows == 1 ? columns : row, 1}};
  if ((row == 1 || rows == 1) && (column >= rows || columns == 1))
    return {{1, columns == 1 ? rows : column}};
  return std::nullopt;
}

std::optional<onednn::Operand> onednn_operand(const at::Tensor& tensor) {
  const auto type = onednn_type(tensor.scalar_type());
  const auto strides = matrix_strides(tensor);
  if (!type || !strides) return std::nullopt;
  const auto last = static_cast<std::size_t>(tensor.dim() - 1);
  onednn::Operand operand{.type = *type};
  for (std::size_t i = 0; i <= last; ++i)
    operand.sizes[i] = tensor.size(static_cast<std::int64_t>(i));
  operand.strides[last - 1] = strides->first;
  operand.strides[last] = strides->second;
  for (std::size_t i = 0; i + 1 < last; ++i) {
    const std::int64_t stride = tensor.stride(static_cast<std::int64_t>(i));
    if (stride == 0 && operand.sizes[i] != 1) return std::nullopt;
    operand.strides[i] = operand.sizes[i] == 1 ? operand.sizes[last - 1] * operand.sizes[last] *
                                                     strides->first * strides->second
                                               : stride;
  }
  return operand;
}

std::optional<onednn::Product> onednn_product(const at::Tensor& out, const at::Tensor& a,
                                              const std::optional<onednn::Operand>& b,
                                              const at::Tensor& bias, bool accumulate) {
  const auto a_operand = onednn_operand(a), out_operand = onednn_operand(out);
  if (!a_operand || !b || !out_operand) return std::nullopt;
  const auto dimensions = static_cast<std::size_t>(out.dim());
  if (out_operand->strides[dimensions - 1] != 1) return std::nullopt;
  onednn::Product product{.dimensions = dimensions,
                          .a = *a_operand,
                          .b = *b,
                          .out = *out_operand,
                          .accumulate = accumulate,
                          .has_bias = bias.defined()};
  if (bias.defined()) {
    const auto type = onednn_type(bias.scalar_type());
    if (!type || !bias.is_contiguous()) return std::nullopt;
    product.bias_type = *type;
  }
  return product;
}

/// "accrue::matmul 1024x1536x384": rows, columns, terms, preceded by the batch if there is
/// one.
std::string span_name(const at::Tensor& out, const at::Tensor& a) {
  const std::int64_t matrix = out.size(-2) * out.size(-1), batch = out.numel() / matrix;
  return "accrue::matmul " + (batch > 1 ? std::to_string(batch) + " of " : "") +
         std::to_string(out.size(-2)) + "x" + std::to_string(out.size(-1)) + "x" +
         std::to_string(a.size(-1));
}

/// Writes the sum of zero terms.
void fill_empty(at::Tensor& out, const at::Tensor& bias, bool accumulate) {
  if (bias.defined())
    out.copy_(bias.expand_as(out));
  else if (!accumulate)
    out.zero_();
}

/// Returns whether oneDNN has computed the product.
bool multiplied(const std::optional<onednn::Product>& product, at::Tensor& out, const at::Tensor& a,
                const at::Tensor& b, const at::Tensor& bias) {
  const void* bias_data = bias.defined() ? bias.const_data_ptr() : nullptr;
  return product && onednn::multiply(*product, a.const_data_ptr(), b.const_data_ptr(), bias_data,
                                     out.mutable_data_ptr());
}

void multiply_natively(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                       const at::Tensor& bias, bool accumulate) {
  if (multiplied(onednn_product(out, a, onednn_operand(b), bias, accumulate), out, a, b, bias))
    return;
  aten::multiply(out, a, b, bias, accumulate);
}

void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
              bool accumulate) {
  if (out.numel() == 0) return;
  RECORD_FUNCTION(span_name(out, a), span_of({a, b, bias, out}, 2 * out.numel() * a.size(-1)));
  const at::NoGradGuard no_grad;
  if (a.size(-1) == 0) return fill_empty(out, bias, accumulate);
  backend_of(out).multiply(out, a, b, bias, accumulate);
}

/// The operand in row-major layout, as in the fallback.
onednn::Operand plain_operand(at::ScalarType dtype, std::int64_t k, std::int64_t n) {
  return {.type = onednn_type(dtype).value(), .sizes = {k, n}, .strides = {n, 1}};
}

void multiply_packed(at::Tensor& out, const at::Tensor& a, const at::Tensor& packed,
                     const at::Tensor& bias) {
  const onednn::Operand b = plain_operand(packed.scalar_type(), a.size(1), out.size(1));
  std::optional<onednn::Product> product = onednn_product(out, a, b, bias, false);
  if (product) product->packed_b = true;
  if (multiplied(product, out, a, packed, bias)) return;
  const at::Tensor plain = at::empty({b.sizes[0], b.sizes[1]}, packed.options());
  onednn::unpack(b, packed.const_data_ptr(), plain.mutable_data_ptr());
  aten::multiply(out, a, plain, bias, false);
}

void expect_packed(const at::Tensor& out, const at::Tensor& a, const at::Tensor& packed) {
  if (out.dim() == 2 && a.dim() == 2 && a.size(0) == out.size(0) && packed.dim() == 1 &&
      packed.scalar_type() == a.scalar_type())
    return;
  throw usage_error("matmul", "out [M, N], a [M, K] and b [K, N] packed, a and b of one dtype",
                    product_text(out, a, packed), "packing b in a's dtype");
}

}  // namespace

void cpu::multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   const at::Tensor& bias, bool accumulate) {
  if (!accumulate && matvec::fits(out, a, b, bias)) return matvec::multiply(out, a, b, bias);
  if (a.scalar_type() == at::kBFloat16 && !multiplies_bf16())
    widened::multiply(out, a, b, bias, accumulate, multiply_natively);
  else
    multiply_natively(out, a, b, bias, accumulate);
}

std::int64_t packed_elements(const at::TensorOptions& b, std::int64_t k, std::int64_t n) {
  const at::ScalarType dtype = c10::typeMetaToScalarType(b.dtype());
  const auto type = onednn_type(dtype);
  if (!b.device().is_cpu() || !type || k == 0 || n == 0) return 0;
  if (*type == onednn::Type::bf16 && !multiplies_bf16()) return 0;
  return static_cast<std::int64_t>(onednn::packed_bytes(*type, k, n) / c10::elementSize(dtype));
}

void pack_out(at::Tensor& packed, const at::Tensor& b) {
  RECORD_FUNCTION("accrue::pack", span_of({b, packed}));
  onednn::pack(onednn_operand(b).value(), b.const_data_ptr(), packed.mutable_data_ptr());
  packed.unsafeGetTensorImpl()->bump_version();
}

void gemm_packed_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& packed,
                     const at::Tensor& bias) {
  expect_packed(out, a, packed);
  if (bias.defined()) expect_bias(bias, out, a);
  if (out.numel() == 0) return;
  RECORD_FUNCTION(span_name(out, a), span_of({a, packed, bias, out}, 2 * out.numel() * a.size(-1)));
  multiply_packed(out, a, packed, bias);
}

void gemm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool accumulate) {
  expect_operands(out, a, b);
  multiply(out, a, b, {}, accumulate);
}

void gemm_bias_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   const at::Tensor& bias) {
  expect_operands(out, a, b);
  expect_bias(bias, out, a);
  multiply(out, a, b, bias, false);
}

bool multiplies_bf16() { return onednn::multiplies_bf16(); }

std::int64_t bf16_scratch_bytes() { return multiplies_bf16() ? 0 : widened::scratch_bytes; }

std::string gemm_backend() {
  const std::string onednn = onednn::description();
  return onednn.empty() ? aten::description() : onednn;
}

}  // namespace accrue::kernels
