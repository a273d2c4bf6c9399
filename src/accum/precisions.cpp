#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <utility>

#include "accrue/memory/offload_passes.h"
#include "accum/staged_sum.h"
#include "accum/tensor_folds.h"
#include "core/rounding_stream.h"

namespace accrue::accum {
namespace {

constexpr std::int64_t kWidenedElements = 1024;

std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

/// A sum whose values are at most as precise as float.
class NarrowSum : public StagedSum {
 public:
  using StagedSum::read;
  using StagedSum::StagedSum;
  void read(std::int64_t begin, std::int64_t count, double* to) const final {
    std::array<float, kWidenedElements> block;
    for (std::int64_t done = 0; done < count; done += kWidenedElements) {
      const std::int64_t size = std::min(kWidenedElements, count - done);
      read(begin + done, size, block.data());
      std::copy_n(block.begin(), size, to + done);
    }
  }

 protected:
  std::uint16_t* sum() const { return data<std::uint16_t>(); }
};

class Fp64Sum final : public StagedSum {
 public:
  using StagedSum::StagedSum;
  void read(std::int64_t begin, std::int64_t count, float* to) const override {
    std::transform(data<double>() + begin, data<double>() + begin + count, to,
                   [](double value) { return static_cast<float>(value); });
  }
  void read(std::int64_t begin, std::int64_t count, double* to) const override {
    std::copy_n(data<double>() + begin, count, to);
  }

 protected:
  using StagedSum::fold;
  double fold(const float* from, std::int64_t begin, std::int64_t count, bool add) override {
    return fold_fp64(from, data<double>() + begin, size_of(count), add);
  }
  void fold_tensor(const at::Tensor& contribution, bool add) override {
    tensor_folds::fold_fp64(contribution, main(), add);
  }
};

class Bf16Sum final : public NarrowSum {
 public:
  using NarrowSum::NarrowSum;
  using NarrowSum::read;
  void read(std::int64_t begin, std::int64_t count, float* to) const override {
    read_bf16(sum() + begin, size_of(count), to);
  }

 protected:
  using StagedSum::fold;
  double fold(const float* from, std::int64_t begin, std::int64_t count, bool add) override {
    return fold_bf16(from, sum() + begin, size_of(count), add);
  }
  void fold_tensor(const at::Tensor& contribution, bool add) override {
    tensor_folds::fold_bf16(contribution.to(at::kFloat), main(), add);
  }
};

class StochasticSum final : public NarrowSum {
 public:
  StochasticSum(std::shared_ptr<Staging> staging, at::Tensor main, at::ScalarType dtype,
                std::size_t index)
      : NarrowSum(std::move(staging), std::move(main), dtype),
        index_(static_cast<std::uint32_t>(index)) {}
  using NarrowSum::read;
  void read(std::int64_t begin, std::int64_t count, float* to) const override {
    read_bf16(sum() + begin, size_of(count), to);
  }

 protected:
  using StagedSum::fold;
  void prepare(const kernels::GradSlot& slot) override {
    const auto window = static_cast<std::uint64_t>(staging().window);
    stream_ = rounding_stream(
        staging().seed, kUse,
        {static_cast<std::uint32_t>(window), static_cast<std::uint32_t>(window >> 32), index_,
         static_cast<std::uint32_t>(slot.contributions)});
  }
  double fold(const float* from, std::int64_t begin, std::int64_t count, bool add) override {
    return fold_bf16_stochastic(from, sum() + begin, size_of(count), add, stream_,
                                static_cast<std::uint64_t>(begin));
  }
  void fold_tensor(const at::Tensor& contribution, bool add) override {
    tensor_folds::fold_bf16_stochastic(contribution.to(at::kFloat), main(), add, stream_);
  }

 private:
  /// Separates these words from other uses of the seed ("rnd" in ASCII).
  static constexpr std::uint32_t kUse = 0x726E64;
  std::uint32_t index_;
  RoundingStream stream_;
};

class KahanSum final : public NarrowSum {
 public:
  KahanSum(std::shared_ptr<Staging> staging, at::Tensor main, at::ScalarType dtype)
      : NarrowSum(std::move(staging), std::move(main), dtype),
        compensation_(memory::zeros(this->main().sizes(), this->main().options())) {}
  using NarrowSum::read;
  void read(std::int64_t begin, std::int64_t count, float* to) const override {
    read_bf16_kahan(sum() + begin, owed() + begin, size_of(count), to);
  }
  at::Tensor values(at::ScalarType dtype) const override {
    return main().to(at::kFloat).sub_(compensation_.to(at::kFloat)).to(dtype);
  }
  void clear() override {
    NarrowSum::clear();
    compensation_.zero_();
  }
  /// [2, shape]: the sum and its compensation.
  at::Tensor saved() const override { return at::stack({main(), compensation_}); }
  bool fits(const at::Tensor& saved) const override {
    return saved.dim() == main().dim() + 1 && saved.size(0) == 2 && NarrowSum::fits(saved[0]);
  }
  void restore(const at::Tensor& saved) override {
    NarrowSum::restore(saved[0]);
    compensation_.copy_(saved[1]);
  }
  at::Tensor compensation() const override { return compensation_; }

 protected:
  using StagedSum::fold;
  double fold(const float* from, std::int64_t begin, std::int64_t count, bool add) override {
    return fold_bf16_kahan(from, sum() + begin, owed() + begin, size_of(count), add);
  }
  void fold_tensor(const at::Tensor& contribution, bool add) override {
    tensor_folds::fold_bf16_kahan(contribution.to(at::kFloat), main(), compensation_, add);
  }

 private:
  std::uint16_t* owed() const {
    return static_cast<std::uint16_t*>(compensation_.mutable_data_ptr());
  }
  at::Tensor compensation_;
};

}  // namespace

std::shared_ptr<StagedSum> make_staged_sum(Accumulation kind, std::shared_ptr<Staging> staging,
                                           const at::Tensor& main, const at::Tensor& parameter,
                                           std::size_t index) {
  const at::ScalarType dtype = parameter.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  switch (kind) {
    case Accumulation::fp64:
      return std::make_shared<Fp64Sum>(std::move(staging), main, dtype);
    case Accumulation::bf16:
      return std::make_shared<Bf16Sum>(std::move(staging), main, dtype);
    case Accumulation::bf16_kahan:
      return std::make_shared<KahanSum>(std::move(staging), main, dtype);
    case Accumulation::bf16_stochastic:
      return std::make_shared<StochasticSum>(std::move(staging), main, dtype, index);
    case Accumulation::fixed:
      return std::make_shared<FixedSum>(std::move(staging), main, dtype);
    case Accumulation::fp32:
      break;
  }
  return nullptr;
}

}  // namespace accrue::accum
