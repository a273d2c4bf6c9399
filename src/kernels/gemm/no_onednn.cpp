#include "kernels/convolution/onednn_convolution.h"
#include "kernels/convolution/onednn_weight_gradient.h"
#include "kernels/gemm/onednn_gemm.h"

namespace accrue::kernels::onednn {

bool multiply(const Product&, const void*, const void*, const void*, void*) { return false; }

bool convolve(const Convolution&, const void*, const void*, float*) { return false; }

bool convolution_data_gradient(const Convolution&, const void*, const void*, float*) {
  return false;
}

bool convolution_weight_gradient(const Convolution&, const void*, const void*, float*) {
  return false;
}

bool has_weight_gradient(const WeightGradient&) { return false; }

void weight_gradient(const WeightGradient&, const float*, const float*, float*, bool, const Room&) {
}

std::size_t packed_bytes(Type, std::int64_t, std::int64_t) { return 0; }

void pack(const Operand&, const void*, void*) {}

void unpack(const Operand&, const void*, void*) {}

bool multiplies_bf16() { return false; }

std::string description() { return {}; }

}  // namespace accrue::kernels::onednn
