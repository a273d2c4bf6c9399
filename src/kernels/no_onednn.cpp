#include "onednn_gemm.h"

namespace accrue::kernels::onednn {

bool multiply(const Product&, const void*, const void*, const void*, void*) { return false; }

bool multiplies_bf16() { return false; }

std::string description() { return {}; }

}  // namespace accrue::kernels::onednn
