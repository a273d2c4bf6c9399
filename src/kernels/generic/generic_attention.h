#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/attention/attend.h"
#include "kernels/backend.h"

namespace accrue::kernels::generic {

/// attend() and attend_backward() of kernels/attention/attend.h by ATen's operators: its fused
/// attention if it supports the plan (causal or whole samples, without a window, a soft cap or
/// dropout), and otherwise products and softmax with all scores of a head in memory. The back end
/// may have a pass of its own for packing the gradients (Backend::pack_heads).
Attended attend(const AttentionPlan& plan, const Projections& of);
void attend_backward(const Backend& backend, const AttentionPlan& plan, const Projections& of,
                     const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                     Projections& grads);

}  // namespace accrue::kernels::generic
