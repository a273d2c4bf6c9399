#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/attention/attend.h"

namespace accrue::kernels::generic {

/// attend() and attend_backward() of kernels/attention/attend.h by ATen's operators: its fused
/// attention if it supports the plan (causal or whole samples, without a window, a soft cap or
/// dropout), and otherwise products and softmax with all scores of a head in memory.
Attended attend(const AttentionPlan& plan, const Projections& of);
void attend_backward(const AttentionPlan& plan, const Projections& of,
                     const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                     Projections& grads);

}  // namespace accrue::kernels::generic
