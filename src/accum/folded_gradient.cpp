#include "accum/folded_gradient.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "accrue/core/error.h"
#include "accum/tensor_folds.h"
#include "kernels/backend.h"

namespace accrue::accum {
namespace {

template <class T>
double largest_value_in_memory(const at::Tensor& values) {
  const T* data = values.const_data_ptr<T>();
  const std::int64_t total = values.numel();
  std::vector<double> largest(
      static_cast<std::size_t>((total + kContributionChunk - 1) / kContributionChunk));
  at::parallel_for(
      0, static_cast<std::int64_t>(largest.size()), 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t chunk = first; chunk < last; ++chunk) {
          const std::int64_t begin = chunk * kContributionChunk;
          largest[static_cast<std::size_t>(chunk)] = largest_of(
              data + begin, static_cast<std::size_t>(std::min(kContributionChunk, total - begin)));
        }
      });
  return largest.empty() ? 0 : *std::ranges::max_element(largest);
}

/// The largest magnitude of a contribution; not finite if an element is not. Folding cannot be
/// undone, so the host waits for a device here.
double largest_magnitude(const at::Tensor& values) {
  return kernels::in_form_of(
      values,
      [&] {
        return values.scalar_type() == at::kDouble ? largest_value_in_memory<double>(values)
                                                   : largest_value_in_memory<float>(values);
      },
      [&] { return tensor_folds::largest_of(values).item<double>(); });
}

class AtOnce final : public FoldedGradient {
 public:
  AtOnce(std::shared_ptr<Folding> folding, std::string name, const at::Tensor& parameter)
      : FoldedGradient(std::move(folding), std::move(name), parameter) {
    this->folding().staging.reserve(parameter);
  }

  kernels::Contribution stage() override {
    require_first();
    return {folding().staging.lend(parameter().sizes(), contribution_dtype()), false};
  }
  void take_staged(kernels::GradSlot& slot) override {
    take_whole(slot, folding().staging.take_back());
  }
  void take(kernels::GradSlot& slot, const at::Tensor& contribution) override {
    if (contribution.scalar_type() != contribution_dtype() || !contribution.is_contiguous())
      return FoldedGradient::take(slot, contribution);
    require_first();
    take_whole(slot, contribution);
  }

  void begin_micro_batch() override { contributed_ = false; }

 private:
  bool needs_whole() const {
    return folding().target != nullptr && !folding().target->takes_parts();
  }
  void take_whole(kernels::GradSlot& slot, const at::Tensor& contribution) {
    contributed_ = true;
    fold(contribution, examine(slot, contribution));
  }
  void require_first() const {
    if (!contributed_ || !needs_whole()) return;
    throw usage_error("fold a gradient into the optimizer",
                      "one contribution a micro-batch to each parameter, or its name among the "
                      "shared ones",
                      "a second one to '" + name() + "'",
                      "Trainable::shared_parameters() that names it");
  }

  bool contributed_ = false;  ///< in this micro-batch
};

class AtCommit final : public FoldedGradient {
 public:
  AtCommit(std::shared_ptr<Folding> folding, std::string name, const at::Tensor& parameter)
      : FoldedGradient(std::move(folding), std::move(name), parameter),
        sum_(at::empty(parameter.sizes(), parameter.options().dtype(contribution_dtype()))) {}

  kernels::Contribution stage() override { return {sum_, any_}; }
  void take_staged(kernels::GradSlot& /*slot*/) override { any_ = true; }

  void begin_micro_batch() override { any_ = false; }
  void check(kernels::GradSlot& slot) override { largest_ = any_ ? examine(slot, sum_) : 0; }
  void end_micro_batch() override { fold(sum_, largest_); }
  std::int64_t kept_bytes() const override { return static_cast<std::int64_t>(sum_.nbytes()); }

 private:
  at::Tensor sum_;
  bool any_ = false;  ///< whether `sum_` holds a contribution of this micro-batch
  double largest_ = 0;
};

}  // namespace

FoldedGradient::FoldedGradient(std::shared_ptr<Folding> folding, std::string name,
                               at::Tensor parameter)
    : folding_(std::move(folding)), name_(std::move(name)), parameter_(std::move(parameter)) {}

at::ScalarType FoldedGradient::contribution_dtype() const {
  return parameter_.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void FoldedGradient::take(kernels::GradSlot& slot, const at::Tensor& contribution) {
  const kernels::Contribution to = stage();
  to.add ? to.into.add_(contribution) : to.into.copy_(contribution);
  take_staged(slot);
}

double FoldedGradient::examine(kernels::GradSlot& slot, const at::Tensor& contribution) {
  const double largest = largest_magnitude(contribution);
  if (!std::isfinite(largest)) folding_->found_non_finite = slot.found_non_finite = true;
  return largest;
}

void FoldedGradient::fold(const at::Tensor& contribution, double largest) {
  if (folding_->found_non_finite || largest == 0 || folding_->scale == 0) return;
  ++folding_->folded;
  if (folding_->target) folding_->target->fold(parameter_, contribution, folding_->scale);
}

std::shared_ptr<FoldedGradient> make_folded_at_once(std::shared_ptr<Folding> folding,
                                                    std::string name, const at::Tensor& parameter) {
  return std::make_shared<AtOnce>(std::move(folding), std::move(name), parameter);
}

std::shared_ptr<FoldedGradient> make_folded_at_commit(std::shared_ptr<Folding> folding,
                                                      std::string name,
                                                      const at::Tensor& parameter) {
  return std::make_shared<AtCommit>(std::move(folding), std::move(name), parameter);
}

}  // namespace accrue::accum
