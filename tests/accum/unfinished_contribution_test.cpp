// A head's loss that is found not finite after some of its chunks: nothing of them stays.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <optional>

#include "accrue/accum/window.h"
#include "accrue/kernels/cross_entropy.h"

namespace accrue::accum {
namespace {

constexpr std::int64_t kRows = 6, kChunkRows = 2, kWidth = 4, kClasses = 5;

/// Adds up its input.
class Total final : public FoldTarget {
 public:
  bool takes(const at::Tensor&) const override { return true; }
  bool takes_parts() const override { return false; }
  void fold(const at::Tensor&, const at::Tensor& contribution, double scale) override {
    const at::Tensor part = contribution * scale;
    sum = sum.defined() ? sum + part : part;
  }
  bool is_between_steps() const override { return sum.defined(); }
  at::Tensor sum;
};

/// A head whose gradient is summed by `accumulation`, or folded if that is none.
class Head {
 public:
  explicit Head(std::optional<Accumulation> accumulation)
      : target_(accumulation ? nullptr : std::make_shared<Total>()),
        buffer_(accumulation
                    ? std::make_shared<GradientBuffer>(parameters_, *accumulation)
                    : std::make_shared<GradientBuffer>(parameters_, FoldInto{target_, {}})),
        window(buffer_) {
    window.open(0, 1, 2 * kRows);
  }

  void add(std::int64_t sample) {
    window.begin({.sample_ids = {sample}});
    const Loss added = loss(hidden_of(sample));
    added.sum.backward();
    window.commit(added.sum.item<double>(), added.weight);
  }
  /// Runs the loss of a micro-batch in which only the last chunk is not finite.
  void add_poisoned() {
    window.begin({.sample_ids = {9}});
    at::Tensor hidden = hidden_of(9);
    hidden[kRows - 1].fill_(std::numeric_limits<double>::quiet_NaN());
    EXPECT_FALSE(std::isfinite(loss(hidden).sum.item<double>()));
    window.abort(MicroStatus::quarantined, "its loss is not finite");
  }
  /// If a sum was added to in place, only a replay can undo it.
  void allow_replay() {
    window.set_replay(
        [this](const MicroRef& micro) { return loss(hidden_of(micro.sample_ids[0])); });
  }
  at::Tensor sum() const {
    return target_ ? target_->sum : GradientBuffer::saved_sum(buffer_->entries()[0]);
  }

 private:
  static at::Tensor hidden_of(std::int64_t sample) {
    at::manual_seed(static_cast<std::uint64_t>(sample));
    return at::randn({kRows, kWidth});
  }
  Loss loss(const at::Tensor& hidden) {
    return kernels::linear_cross_entropy(hidden, parameters_[0].tensor,
                                         at::arange(kRows) % kClasses, copy_,
                                         {.chunk_rows = kChunkRows});
  }

  NamedParameters parameters_{{"head", at::ones({kClasses, kWidth}).requires_grad_(true)}};
  kernels::PreparedWeight copy_;
  std::shared_ptr<Total> target_;
  std::shared_ptr<GradientBuffer> buffer_;

 public:
  Window window;
};

class UnfinishedContribution : public ::testing::TestWithParam<std::optional<Accumulation>> {};
INSTANTIATE_TEST_SUITE_P(All, UnfinishedContribution,
                         ::testing::Values(Accumulation::fp32, Accumulation::fp64,
                                           Accumulation::bf16_kahan, Accumulation::bf16_stochastic,
                                           Accumulation::fixed, std::nullopt));

TEST_P(UnfinishedContribution, LeavesTheBitsOfAWindowWithoutIt) {
  Head clean(GetParam());
  clean.add(1);
  const at::Tensor first = clean.sum().clone();
  clean.add(2);
  EXPECT_FALSE(at::equal(clean.sum(), first));
  for (const int before : {1, 2}) {
    Head head(GetParam());
    if (GetParam() == Accumulation::fp32) head.allow_replay();
    for (const int sample : {1, 2}) {
      if (sample == before) head.add_poisoned();
      head.add(sample);
    }
    EXPECT_FALSE(head.window.is_lost()) << before;
    EXPECT_TRUE(at::equal(head.sum(), clean.sum())) << before;
  }
}

}  // namespace
}  // namespace accrue::accum
