#include "kernels/convolution/onednn_convolution.h"
#include "kernels/convolution/onednn_weight_gradient.h"

namespace accrue::kernels::onednn {

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

}  // namespace accrue::kernels::onednn
