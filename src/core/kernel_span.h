#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <vector>

namespace accrue {

/// What RECORD_FUNCTION("accrue::<kernel>", span_of(...)) tells whoever listens (torch.profiler,
/// accrue bench --profile): the tensors that a kernel reads or writes, undefined ones left out, and
/// behind them its floating-point operations. It is made only while somebody listens.
inline std::vector<c10::IValue> span_of(at::TensorList tensors, std::int64_t flops = 0) {
  std::vector<c10::IValue> values;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) values.emplace_back(tensor);
  values.emplace_back(flops);
  return values;
}

}  // namespace accrue
