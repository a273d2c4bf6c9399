#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "verify/subject.h"

namespace accrue::proof::testing {

/// A model of one parameter w, whose gradient for sample i is w times a separate row. Passes with
/// more samples than fit run out of memory, and training's computation can have a planted fault.
class PlantedSubject final : public Subject {
 public:
  explicit PlantedSubject(std::int64_t samples, std::int64_t elements = 5000)
      : rows_(at::randn({samples, elements}, at::kDouble) + 0.3) {
    parameters_.push_back({"w", at::ones({elements}).requires_grad_()});
  }

  std::int64_t most_in_pass = 1 << 20;
  /// Training's change of the gradient of each part, by its number.
  std::function<at::Tensor(const at::Tensor& gradient, std::size_t part)> fault;
  at::ScalarType sums_in = at::kFloat;  ///< kBFloat16: the dtype of training's sums
  bool fp64_runs_out = false;
  int evaluations = 0;  ///< passes in evaluation mode

  const NamedParameters& parameters() const override { return parameters_; }
  std::int64_t samples() const override { return rows_.size(0); }
  Gradients one_pass(batch::Range part, const Conditions& conditions) override {
    if (part.size() > most_in_pass) throw std::bad_alloc();
    evaluations += conditions.mode == Mode::evaluation;
    const at::Tensor sum = rows_.narrow(0, part.begin, part.size()).sum(0).to(dtype_);
    const auto weight = static_cast<double>(part.size()) * conditions.weighting;
    return {.sums = {sum * parameters_.front().tensor.detach() * conditions.weighting},
            .weight = weight,
            .loss_sum = 2 * weight,
            .terms = static_cast<double>(part.size())};
  }
  Gradients native_pass(batch::Range part, const Conditions& conditions) override {
    return one_pass(part, conditions);
  }
  Gradients accumulated(const Parts& parts, const Conditions& conditions) override {
    Gradients result{.accumulation_errors = {0}, .sums_are_biased = sums_in == at::kBFloat16};
    at::Tensor sum = at::zeros(parameters_.front().tensor.sizes(), sums_in);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Gradients part = one_pass(parts[i], conditions);
      sum = (sum.to(dtype_) + (fault ? fault(part.sums[0], i) : part.sums[0])).to(sums_in);
      result.accumulation_errors[0] += 0x1p-24 * sum.norm().item<double>();
      result.weight += part.weight;
      result.loss_sum += part.loss_sum;
    }
    result.sums = {sum.to(dtype_)};
    return result;
  }
  std::vector<std::string> batch_norms() const override { return {}; }
  bool draws_in_order() const override { return false; }
  bool can(Mode mode) const override { return mode != Mode::batch_norms_frozen; }
  bool buffers_moved() const override { return false; }
  double sum_roundoff() const override { return sums_in == at::kBFloat16 ? 0x1p-8 : 0; }
  std::unique_ptr<Subject> in_double() override {
    if (fp64_runs_out) throw std::bad_alloc();
    auto twin = std::make_unique<PlantedSubject>(*this);
    twin->dtype_ = twin->sums_in = at::kDouble;
    const at::Tensor& w = parameters_.front().tensor;
    twin->parameters_ = {{"w", w.detach().to(at::kDouble).requires_grad_()}};
    return twin;
  }

 private:
  at::Tensor rows_;  ///< [samples, elements], fp64
  NamedParameters parameters_;
  at::ScalarType dtype_ = at::kFloat;
};

}  // namespace accrue::proof::testing
