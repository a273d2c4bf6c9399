#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <vector>

namespace accrue {

/// The arguments of RECORD_FUNCTION("accrue::<kernel>", span_of(...)) for its observers
/// (torch.profiler, accrue bench --profile): the tensors that a kernel reads or writes, without
/// undefined ones, and then its floating-point operations. Only computed if there is an observer.
inline std::vector<c10::IValue> span_of(at::TensorList tensors, std::int64_t flops = 0) {
  std::vector<c10::IValue> values;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) values.emplace_back(tensor);
  values.emplace_back(flops);
  return values;
}

}  // namespace accrue
