#pragma once

#include <array>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "accrue/accum/fold_target.h"
#include "optim/groups.h"
#include "optim/optimizer_state.h"
#include "optim/passes.h"
#include "optim/state_block.h"

namespace accrue::optim {

/// The inputs of folding or stepping one parameter besides memory.
struct FoldUpdate {
  double weight_decay = 0;
  double lr = 0;              ///< if a step is taken
  double gradient_scale = 0;  ///< if a contribution is folded
  bool first = true;          ///< nothing of this window was folded yet: moments must decay, too
  std::int64_t step = 1;      ///< number of the step, from 1
};

/// A parameter, its states' values in its dtype, and the contribution to fold; no contribution for
/// a step.
struct WholeFold {
  at::Tensor parameter, contribution;
  std::vector<at::Tensor> state;
};

/// An optimizer whose state takes each micro-batch's gradient when it is computed. It contains all
/// that such optimizers share except the formula, which subclasses provide twice: vectorised over
/// ranges of host memory (FoldingPasses), and in ATen. Moments decay with the first contribution of
/// a window, or at the step if there was none; so a window that folds nothing changes nothing.
class FoldingOptimizer : public Optimizer {
 public:
  void step(accum::MeanGradient&& gradient, double lr) final;
  void set_fall(const std::optional<RateFall>& fall) final { fall_ = fall; }
  /// Throws a runtime Error in the middle of a window: the previous state no longer exists.
  NamedParameters state() const final;
  void load_state(const StoredTensors& state) final;
  std::int64_t state_bytes() const final { return state_.bytes(); }
  std::shared_ptr<accum::FoldTarget> fold_target() final;

 protected:
  FoldingOptimizer(const char* name, std::vector<Trained> trained, std::vector<StateKind> kinds,
                   const StateOptions& state, bool takes_parts);
  ~FoldingOptimizer() override;

  /// Folds elements [begin, end) of a contribution, which has the parameter's dtype, into `states`.
  virtual void fold_range(const FoldUpdate& update, const at::Tensor& parameter,
                          const at::Tensor& contribution, std::span<const WrittenState> states,
                          std::size_t begin, std::size_t end) const = 0;
  virtual void step_range(const FoldUpdate& update, const at::Tensor& parameter,
                          std::span<const WrittenState> states, std::size_t begin,
                          std::size_t end) const = 0;
  /// These do the same for whole tensors, by ATen's operators.
  virtual void fold_whole(const FoldUpdate& update, const WholeFold& whole) const = 0;
  virtual void step_whole(const FoldUpdate& update, const WholeFold& whole) const = 0;

 private:
  class Target;
  struct Task;
  bool takes(const at::Tensor& parameter) const;
  void fold(const at::Tensor& parameter, const at::Tensor& contribution, double scale);
  bool is_between_steps() const;
  void forget_window();
  std::vector<WrittenState> written_states(std::size_t parameter) const;
  std::vector<Task> tasks_for(double lr) const;
  void run_in_memory(const std::vector<Task>& tasks) const;
  void require_own(const accum::MeanGradient& gradient) const;

  const char* name_;
  std::vector<Trained> trained_;
  std::optional<RateFall> fall_;
  std::unordered_map<const at::TensorImpl*, std::size_t> places_;
  std::vector<std::uint32_t> folded_;  ///< contributions of this window, by parameter
  OptimizerState state_;
  std::shared_ptr<Target> target_;
};

/// Folds over typed memory: Formula provides `fold(update, range, count)` and `move`, the step.
template <class T>
struct FoldRange {
  T* parameter;
  const T* gradient;  ///< the contribution to fold
  std::array<T*, kMostStates> state;
};

template <class Formula>
class FoldingPasses : public FoldingOptimizer {
 protected:
  using FoldingOptimizer::FoldingOptimizer;

  void fold_range(const FoldUpdate& update, const at::Tensor& parameter,
                  const at::Tensor& contribution, std::span<const WrittenState> states,
                  std::size_t begin, std::size_t end) const final {
    if (parameter.scalar_type() == at::kDouble)
      run<double>(update, parameter, contribution.const_data_ptr<double>(), states, begin, end);
    else
      run<float>(update, parameter, contribution.const_data_ptr<float>(), states, begin, end);
  }
  void step_range(const FoldUpdate& update, const at::Tensor& parameter,
                  std::span<const WrittenState> states, std::size_t begin,
                  std::size_t end) const final {
    if (parameter.scalar_type() == at::kDouble)
      run<double>(update, parameter, nullptr, states, begin, end);
    else
      run<float>(update, parameter, nullptr, states, begin, end);
  }

 private:
  /// A null `gradient` is for the step, which changes the moments only if nothing was folded.
  template <class T>
  void run(const FoldUpdate& update, const at::Tensor& parameter, const T* gradient,
           std::span<const WrittenState> states, std::size_t begin, std::size_t end) const {
    const auto& formula = static_cast<const Formula&>(*this);
    const bool writes = gradient != nullptr || update.first;
    for (; begin < end; begin += kBlockElements) {
      const std::size_t count = std::min(kBlockElements, end - begin);
      const StateBlock<T> block(states, begin, count);
      const FoldRange<T> range{parameter.data_ptr<T>() + begin,
                               gradient == nullptr ? nullptr : gradient + begin, block.elements()};
      if (gradient == nullptr)
        formula.move(update, range, count);
      else
        formula.fold(update, range, count);
      if (writes) block.store();
    }
  }
};

}  // namespace accrue::optim
