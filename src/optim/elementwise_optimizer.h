#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "optim/groups.h"
#include "optim/optimizer_state.h"
#include "optim/parallel_ranges.h"
#include "optim/passes.h"
#include "optim/state_block.h"

namespace accrue::optim {

/// The inputs of one parameter's update besides tensors.
struct Update {
  double gradient_scale = 1;
  double lr = 0;
  double weight_decay = 0;
  std::int64_t step = 1;  ///< number of this step, from 1
};

/// The tensors of one parameter's update.
struct UpdatedTensors {
  at::Tensor parameter;
  accum::GradientSource gradient;
  std::vector<WrittenState> state;  ///< in order of the optimizer's kinds of state
};

/// One parameter's update as whole tensors: the window's sum in the parameter's dtype, to be
/// multiplied by the gradient's scale, and the states' values in that dtype.
struct WholeUpdate {
  Update update;
  at::Tensor parameter, gradient;
  std::vector<at::Tensor> state;
};

/// An optimizer whose update of an element depends only on that element. It contains all that such
/// optimizers share except the formula, which subclasses provide twice: vectorised over a range of
/// contiguous CPU memory (see PassOptimizer), and in ATen for any other tensor.
class ElementwiseOptimizer : public Optimizer {
 public:
  void step(accum::MeanGradient&& gradient, double lr) final;
  void set_fall(const std::optional<RateFall>& fall) final { fall_ = fall; }
  NamedParameters state() const final { return state_.tensors(); }
  std::vector<StateRange> ranges() const final;
  void load_state(const StoredTensors& state) final { state_.load(state); }
  std::int64_t state_bytes() const final { return state_.bytes(); }

 protected:
  ElementwiseOptimizer(std::vector<Trained> trained, std::vector<StateKind> kinds,
                       const StateOptions& state);

  virtual void update_range(const Update& update, const UpdatedTensors& tensors, std::size_t begin,
                            std::size_t end) const = 0;
  virtual void update_whole(WholeUpdate& whole) const = 0;
  /// The same for many parameters, for which ATen may have one operation.
  virtual void update_together(std::vector<WholeUpdate>& wholes) const {
    for (WholeUpdate& whole : wholes) update_whole(whole);
  }

 private:
  struct Task {
    Update update;
    UpdatedTensors tensors;
  };
  std::vector<Task> tasks_for(const accum::MeanGradient& gradient, double lr) const;
  std::vector<WrittenState> written_states(std::size_t parameter) const;
  static std::vector<at::Tensor> touched_by(const std::vector<Task>& tasks);
  void require_part(const accum::MeanGradient& gradient) const;
  void run(std::vector<Task>& tasks) const;
  static std::vector<std::vector<TaskRange>> groups_of(const std::vector<const Task*>& tasks);
  static std::vector<at::Tensor> touched_in(const Task& task, std::size_t begin, std::size_t end);
  void run_whole(const std::vector<Task*>& tasks) const;

  RankSlice slice_;
  std::vector<Trained> trained_;
  std::optional<RateFall> fall_;
  OptimizerState state_;
};

/// Elements of one parameter's update, from some index on.
template <class T>
struct Range {
  T* parameter;
  const T* gradient;
  std::array<T*, kMostStates> state;  ///< null if the optimizer keeps no such state
};

/// Calls Formula's `pass(update, range)` and runs its result over contiguous memory. Gradients and
/// states in another precision are converted on the stack block by block.
template <class Formula>
class PassOptimizer : public ElementwiseOptimizer {
 protected:
  using ElementwiseOptimizer::ElementwiseOptimizer;

  void update_range(const Update& update, const UpdatedTensors& tensors, std::size_t begin,
                    std::size_t end) const final {
    if (tensors.parameter.scalar_type() == at::kDouble)
      update_elements<double>(update, tensors, begin, end);
    else
      update_elements<float>(update, tensors, begin, end);
  }

 private:
  template <class T>
  void update_elements(const Update& update, const UpdatedTensors& tensors, std::size_t begin,
                       std::size_t end) const {
    const at::Tensor& values = tensors.gradient.tensor;
    T* parameter = tensors.parameter.data_ptr<T>();
    const T* gradient = nullptr;
    if (values.defined() && values.scalar_type() == tensors.parameter.scalar_type())
      gradient = values.const_data_ptr<T>();
    if (gradient != nullptr && all_plain(tensors.state))
      return run(
          update,
          Range<T>{parameter + begin, gradient + begin, plain_elements<T>(tensors.state, begin)},
          end - begin);
    std::array<T, kBlockElements> read;
    for (; begin < end; begin += kBlockElements) {
      const std::size_t count = std::min(kBlockElements, end - begin);
      const StateBlock<T> state(tensors.state, begin, count);
      if (gradient == nullptr)
        tensors.gradient.read(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(count),
                              read.data());
      run(update,
          Range<T>{parameter + begin, gradient == nullptr ? read.data() : gradient + begin,
                   state.elements()},
          count);
      state.store();
    }
  }

  template <class T>
  void run(const Update& update, const Range<T>& range, std::size_t count) const {
    run_pass(static_cast<const Formula&>(*this).pass(update, range), count);
  }
};

/// The mean gradient plus the L2 penalty's, as a new tensor.
at::Tensor penalised_gradient(const WholeUpdate& whole, double l2);

/// Throws a usage Error unless lower <= value < upper.
void require_option(double value, double lower, double upper, const char* name);
/// Throws a usage Error unless `eps` keeps 0 / (sqrt(0) + eps) from being 0 / 0 in fp32: moments
/// are 0 for elements without gradients.
void require_eps(double eps);

}  // namespace accrue::optim
