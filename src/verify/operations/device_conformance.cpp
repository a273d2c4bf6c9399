#include "verify/operations/device_conformance.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "accrue/accum/window.h"
#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "accrue/kernels/kernel_choice.h"
#include "accrue/optim/optimizer.h"
#include "kernels/aten_element.h"
#include "optim/kept_state.h"
#include "verify/operations/device_operations.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

constexpr std::int64_t columns = 128;

/// 16 units of roundoff times the root of the terms, 4 in bf16 and fp16 (docs/numerics.md), of the
/// largest element.
double bound_of(at::ScalarType dtype, std::int64_t terms) {
  const double units = dtype == at::kFloat ? 16 : 4;
  const double half_unit = dtype == at::kBFloat16 ? 0x1p-9 : dtype == at::kHalf ? 0x1p-12 : 0x1p-24;
  return units * half_unit * std::sqrt(static_cast<double>(terms));
}

double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.cpu().to(at::kDouble), e = expected.cpu().to(at::kDouble);
  const double scale = e.abs().max().item<double>();
  return (a - e).abs().max().item<double>() / (scale == 0 ? 1 : scale);
}

std::string dtype_name(at::ScalarType dtype) {
  if (dtype == at::kHalf) return "fp16";
  return dtype == at::kBFloat16 ? "bf16" : "fp32";
}

/// The dtypes in which operations are compared: accrue's kernels for the CPU have no fp16.
std::vector<at::ScalarType> dtypes_on(c10::Device device) {
  std::vector<at::ScalarType> dtypes{at::kFloat, at::kBFloat16};
  if (!device.is_cpu() || kernels::chosen_kernels() == kernels::Kernels::generic)
    dtypes.push_back(at::kHalf);
  return dtypes;
}

/// The error message, if something failed.
template <class Check>
DeviceCheck attempt(std::string name, const Check& check) {
  DeviceCheck result{.name = std::move(name)};
  try {
    check(result);
    return result;
  } catch (const c10::Error& error) {
    result.detail = error.what_without_backtrace();
  } catch (const std::exception& error) {
    result.detail = error.what();
  }
  result.passed = false;
  return result;
}

DeviceCheck compare(const Case& one, c10::Device device, at::ScalarType dtype) {
  return attempt(std::string(one.name) + ", " + dtype_name(dtype), [&](DeviceCheck& result) {
    const Tensors actual = one.run({device, dtype, at::kFloat}),
                  expected = one.run({c10::kCPU, at::kDouble, at::kDouble});
    const double bound = bound_of(dtype, one.terms);
    double error = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const double of_this = relative_error(actual[i], expected[i]);
      error = of_this <= error ? error : of_this;  // NaN stays
    }
    result.passed = error <= bound;
    result.detail = "relative error " + number(error) + ", bound " + number(bound);
  });
}

DeviceCheck repeats(const Case& one, c10::Device device) {
  return attempt(std::string(one.name) + ", twice, to the bit", [&](DeviceCheck& result) {
    const OperationPlace place{device, at::kBFloat16, at::kFloat};
    const Tensors first = one.run(place), second = one.run(place);
    result.passed = true;
    for (std::size_t i = 0; i < first.size(); ++i)
      result.passed = result.passed && at::equal(first[i].cpu(), second[i].cpu());
    result.detail = result.passed ? "the same bits" : "other bits";
  });
}

/// The mask is a pure function of the sample: the dropped elements are exactly the same.
DeviceCheck check_masks(c10::Device device) {
  return attempt("dropout masks, to the bit", [&](DeviceCheck& result) {
    const at::Tensor there = run_dropout({device, at::kFloat, at::kFloat})[0].cpu();
    const at::Tensor here = run_dropout({c10::kCPU, at::kFloat, at::kFloat})[0];
    result.passed = at::equal(there.ne(0), here.ne(0));
    result.detail = result.passed ? "the same elements" : "other elements";
  });
}

/// The sum of three micro-batches of the same gradients.
at::Tensor summed(c10::Device device, accum::Accumulation accumulation) {
  Values values({device, at::kFloat, at::kFloat});
  const at::Tensor weight = values.parameter({columns, 3});
  accum::Window window(std::make_shared<accum::GradientBuffer>(NamedParameters{{"weight", weight}},
                                                               accumulation, /*rounding_seed=*/3));
  window.open(4);
  for (std::int64_t micro = 0; micro < 3; ++micro) {
    window.begin({.index = micro});
    torch::autograd::backward({(weight * values.draw({columns, 3}, at::kFloat, 0.3)).sum()});
    window.commit(0, 1);
  }
  return accum::source_of(window.buffer()->entries().front()).scaled_copy(1, weight).cpu();
}

DeviceCheck check_sums(c10::Device device, accum::Accumulation accumulation) {
  return attempt(
      "sums in " + std::string(to_string(accumulation)) + ", to the bit", [&](DeviceCheck& result) {
        result.passed = at::equal(summed(device, accumulation), summed(c10::kCPU, accumulation));
        result.detail = result.passed ? "the CPU's bits" : "other bits";
      });
}

DeviceCheck check_states(c10::Device device, optim::StatePrecision precision) {
  const auto kept = [&](c10::Device place) {
    Values values({place, at::kFloat, at::kFloat});
    const at::Tensor parameter = values.parameter({columns, columns});
    const optim::KeptState state(parameter, optim::StateSign::any, precision);
    state.assign(parameter.detach(), rounding_stream(3, 1, {5, 6, 7, 8}));
    return state.whole().cpu();
  };
  return attempt("optimizer states in " + std::string(to_string(precision)) + ", to the bit",
                 [&](DeviceCheck& result) {
                   result.passed = at::equal(kept(device), kept(c10::kCPU));
                   result.detail = result.passed ? "the CPU's bits" : "other bits";
                 });
}

DeviceCheck check_memory(c10::Device device) {
  return attempt("memory statistics", [&](DeviceCheck& result) {
    if (device.is_cpu()) {
      result.passed = true;
      result.detail = "accrue's own allocator counts host memory";
      return;
    }
    constexpr std::int64_t bytes = 8 << 20;
    constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
    const std::int64_t before =
        allocator->getDeviceStats(device.index()).allocated_bytes[all].current;
    const at::Tensor held = at::empty({bytes}, at::TensorOptions(at::kByte).device(device));
    const std::int64_t after =
        allocator->getDeviceStats(device.index()).allocated_bytes[all].current;
    const auto [free, total] = allocator->getMemoryInfo(device.index());
    result.passed = after - before == bytes && free > 0 && total >= free;
    result.detail = std::to_string(after - before) + " bytes counted of " + std::to_string(bytes);
  });
}

/// Parameters are made on the CPU, and moved in place: other references see them there.
DeviceCheck check_moving(c10::Device device) {
  return attempt("parameters that move there", [&](DeviceCheck& result) {
    const at::Tensor parameter = at::ones({columns}).requires_grad_();
    at::Tensor(parameter).set_data(parameter.detach().to(device));
    result.passed = parameter.device() == device && parameter.is_leaf();
    result.detail = "on " + parameter.device().str();
  });
}

DeviceCheck check_pinned(c10::Device device) {
  return attempt("copies from pinned memory", [&](DeviceCheck& result) {
    const at::Tensor here = at::arange(1000, at::kLong);
    const at::Tensor there =
        device.is_cpu() ? here : here.pin_memory().to(device, /*non_blocking=*/true);
    result.passed = at::equal(there.cpu(), here);
    result.detail = result.passed ? "whole" : "other values";
  });
}

}  // namespace

std::vector<DeviceCheck> check_device(c10::Device device) {
  const at::AutoGradMode with_gradients(true);
  std::vector<DeviceCheck> checks;
  for (const Case& one : device_operations())
    for (const at::ScalarType dtype : dtypes_on(device))
      checks.push_back(compare(one, device, dtype));
  for (const Case& one : device_operations()) checks.push_back(repeats(one, device));
  checks.push_back(check_masks(device));
  for (const auto& [accumulation, word] : accum::accumulation_words.table)
    checks.push_back(check_sums(device, accumulation));
  for (const auto precision : {optim::StatePrecision::bf16, optim::StatePrecision::int8})
    checks.push_back(check_states(device, precision));
  checks.push_back(check_moving(device));
  checks.push_back(check_memory(device));
  checks.push_back(check_pinned(device));
  return checks;
}

void expect_trainable(c10::Device device) {
  const std::vector<DeviceCheck> checks = check_device(device);
  const auto first = std::ranges::find(checks, false, &DeviceCheck::passed);
  if (first == checks.end()) return;
  const auto failed = std::ranges::count(checks, false, &DeviceCheck::passed);
  const std::string word = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  throw usage_error("run.device = \"" + word + "\"", "a device that does what training asks of one",
                    "one that fails " + std::to_string(failed) + " of " +
                        std::to_string(checks.size()) +
                        " checks, the first of them: " + first->name + ": " + first->detail,
                    "accrue doctor --device=" + word + ", which reports all of them, or \"cpu\"");
}

}  // namespace accrue::proof
