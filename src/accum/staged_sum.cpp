#include "accum/staged_sum.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "accrue/core/error.h"
#include "accum/tensor_folds.h"

namespace accrue::accum {
namespace {

/// The number of elements of a double contribution that are rounded to float on the stack.
constexpr std::int64_t kRoundedElements = 2048;
static_assert(kContributionChunk % kRoundingBlock == 0 && kRoundedElements % kRoundingBlock == 0);

}  // namespace

at::Tensor& Staging::scratch(at::ScalarType dtype) {
  return dtype == at::kDouble ? double_ : single_;
}

void Staging::reserve(const at::Tensor& parameter) {
  const at::ScalarType dtype = parameter.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor& memory = scratch(dtype);
  if (!memory.defined() || memory.numel() < parameter.numel())
    memory = at::empty({parameter.numel()}, parameter.options().dtype(dtype).requires_grad(false));
}

at::Tensor Staging::lend(at::IntArrayRef sizes, at::ScalarType dtype) {
  if (lent_.defined() && lent_.use_count() > 1)
    throw runtime_error("contribute", "one contribution at a time",
                        "a second one before done() of the first",
                        "calling done() before the next contribute()");
  const at::Tensor& memory = scratch(dtype);
  lent_ = memory.narrow(0, 0, c10::multiply_integers(sizes)).view(sizes);
  return lent_;
}

at::Tensor Staging::take_back() {
  if (!lent_.defined())
    throw runtime_error("done", "a contribution in progress", "none",
                        "calling contribute() before it");
  return std::exchange(lent_, at::Tensor());
}

std::int64_t Staging::bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor& memory : {single_, double_})
    if (memory.defined()) bytes += static_cast<std::int64_t>(memory.nbytes());
  return bytes;
}

StagedSum::StagedSum(std::shared_ptr<Staging> staging, at::Tensor main,
                     at::ScalarType contribution_dtype)
    : staging_(std::move(staging)),
      main_(std::move(main)),
      contribution_dtype_(contribution_dtype) {}

kernels::Contribution StagedSum::stage() {
  return {staging_->lend(main_.sizes(), contribution_dtype_), false};
}

void StagedSum::take_staged(kernels::GradSlot& slot) { take(slot, staging_->take_back()); }

void StagedSum::take(kernels::GradSlot& slot, const at::Tensor& contribution) {
  if (contribution.scalar_type() != contribution_dtype_ || !contribution.is_contiguous()) {
    stage().into.copy_(contribution);
    return take_staged(slot);
  }
  prepare(slot);
  kernels::in_form_of(
      main_, [&] { take_over_memory(slot, contribution); },
      [&] { take_by_operators(slot, contribution); });
}

void StagedSum::take_over_memory(kernels::GradSlot& slot, const at::Tensor& contribution) {
  const bool add = !slot.fresh;
  judge(slot, contribution_dtype_ == at::kDouble ? fold_all<double>(contribution, add)
                                                 : fold_all<float>(contribution, add));
}

/// On a device the largest magnitude stays there until the micro-batch is committed.
void StagedSum::take_by_operators(kernels::GradSlot& slot, const at::Tensor& contribution) {
  const at::NoGradGuard no_grad;
  const at::Tensor largest = tensor_folds::largest_of(contribution);
  fold_tensor(contribution, !slot.fresh);
  if (main_.is_cpu()) return judge(slot, largest.item<double>());
  unjudged_ = unjudged_.defined() ? at::maximum(unjudged_, largest) : largest;
}

template <class T>
double StagedSum::fold_all(const at::Tensor& contribution, bool add) {
  const T* from = contribution.const_data_ptr<T>();
  const std::int64_t total = contribution.numel();
  const std::int64_t chunks = (total + kContributionChunk - 1) / kContributionChunk;
  std::vector<double> largest(static_cast<std::size_t>(chunks));
  at::parallel_for(0, chunks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t chunk = first; chunk < last; ++chunk) {
      const std::int64_t begin = chunk * kContributionChunk;
      largest[static_cast<std::size_t>(chunk)] =
          fold(from + begin, begin, std::min(kContributionChunk, total - begin), add);
    }
  });
  return largest.empty() ? 0 : *std::ranges::max_element(largest);
}

double StagedSum::fold(const double* from, std::int64_t begin, std::int64_t count, bool add) {
  std::array<float, kRoundedElements> block;
  double largest = 0;
  for (std::int64_t done = 0; done < count; done += kRoundedElements) {
    const std::int64_t size = std::min(kRoundedElements, count - done);
    std::copy_n(from + done, size, block.begin());
    largest = std::max(largest, fold(block.data(), begin + done, size, add));
  }
  return largest;
}

void StagedSum::judge(kernels::GradSlot& slot, double largest) {
  if (!std::isfinite(largest)) slot.found_non_finite = true;
}

void StagedSum::clear() { main_.zero_(); }
at::Tensor StagedSum::saved() const { return main_.clone(); }
bool StagedSum::fits(const at::Tensor& saved) const {
  return saved.sizes() == main_.sizes() && saved.scalar_type() == main_.scalar_type();
}
void StagedSum::restore(const at::Tensor& saved) { main_.copy_(saved); }

std::int64_t StagedSum::extra_bytes() const {
  const at::Tensor extra = compensation();
  return extra.defined() ? static_cast<std::int64_t>(extra.nbytes()) : 0;
}

std::vector<at::Tensor> StagedSum::tensors() const {
  std::vector<at::Tensor> all{main_};
  if (const at::Tensor extra = compensation(); extra.defined()) all.push_back(extra);
  return all;
}

}  // namespace accrue::accum
