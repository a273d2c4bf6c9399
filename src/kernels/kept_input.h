#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "accrue/kernels/recompute.h"
#include "kernels/saved_value.h"

namespace accrue::kernels {

/// An operation's input as its backward gets at it: kept, or made again.
class KeptInput {
 public:
  /// What to save as a variable: x, or nothing if it can be made again.
  static at::Tensor save(torch::autograd::AutogradContext& context, const at::Tensor& x,
                         const Remake& remake) {
    if (!remake) return x;
    context.saved_data[key] = to_saved(remake);
    return {};
  }
  /// The input again; `saved` is what save() returned.
  static at::Tensor get(const torch::autograd::AutogradContext& context, const at::Tensor& saved) {
    return saved.defined() ? saved : from_saved<Remake>(context.saved_data.at(key))();
  }

 private:
  static constexpr const char* key = "remake";
};

}  // namespace accrue::kernels
