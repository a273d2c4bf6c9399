#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "groups.h"
#include "passes.h"

namespace accrue::optim {

/// What one parameter's update depends on besides tensors.
struct Update {
  double gradient_scale = 1;
  double lr = 0;
  double weight_decay = 0;
  std::int64_t step = 1;  ///< this one, counted from 1
};

/// The tensors of one parameter's update.
struct UpdatedTensors {
  at::Tensor parameter;
  accum::GradientSource gradient;
  std::vector<at::Tensor> state;  ///< in order of the optimizer's state names
};

/// An optimizer whose update of an element depends on that element alone: all that optimizers have
/// in common but the formula, which subclasses give twice: vectorised over a range of contiguous
/// CPU memory (see PassOptimizer), and in ATen for any other tensor.
class ElementwiseOptimizer : public Optimizer {
 public:
  void step(accum::MeanGradient&& gradient, double lr) final;
  NamedParameters state() const final;
  void load_state(const NamedParameters& state) final;
  std::int64_t state_bytes() const final;

 protected:
  /// State is allocated here, so that no step runs out of memory.
  ElementwiseOptimizer(std::vector<Trained> trained, std::vector<std::string> state_names);

  virtual void update_range(const Update& update, const UpdatedTensors& tensors, std::size_t begin,
                            std::size_t end) const = 0;
  virtual void update_whole(const Update& update, UpdatedTensors& tensors) const = 0;

 private:
  struct Task {
    Update update;
    UpdatedTensors tensors;
  };
  std::vector<Task> tasks_for(const accum::MeanGradient& gradient, double lr) const;
  void run(std::vector<Task>& tasks) const;
  void run_in_chunks(const std::vector<const Task*>& tasks) const;

  std::vector<Trained> trained_;
  std::vector<std::string> state_names_;
  std::vector<std::vector<at::Tensor>> state_;  ///< by parameter, then by state name
  std::int64_t steps_ = 0;
};

/// Elements of one parameter's update, from some place on.
template <class T>
struct Range {
  const UpdatedTensors& tensors;
  std::size_t begin;
  const T* gradient;

  T* parameter() const { return tensors.parameter.data_ptr<T>() + begin; }
  /// Null where the optimizer keeps no such state.
  T* state(std::size_t index) const {
    return index < tensors.state.size() ? tensors.state[index].data_ptr<T>() + begin : nullptr;
  }
};

/// Calls Formula's `pass(update, range)` and runs what it returns over contiguous memory. A
/// gradient that is kept in another precision is read block by block, on the stack.
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
  static constexpr std::size_t kBlockElements = 4096;

  template <class T>
  void update_elements(const Update& update, const UpdatedTensors& tensors, std::size_t begin,
                       std::size_t end) const {
    const at::Tensor& values = tensors.gradient.tensor;
    if (values.defined() && values.scalar_type() == tensors.parameter.scalar_type())
      return run(update, Range<T>{tensors, begin, values.const_data_ptr<T>() + begin}, end - begin);
    std::array<T, kBlockElements> block;
    for (; begin < end; begin += kBlockElements) {
      const std::size_t count = std::min(kBlockElements, end - begin);
      tensors.gradient.read(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(count),
                            block.data());
      run(update, Range<T>{tensors, begin, block.data()}, count);
    }
  }

  template <class T>
  void run(const Update& update, const Range<T>& range, std::size_t count) const {
    run_pass(static_cast<const Formula&>(*this).pass(update, range), count);
  }
};

/// The mean gradient plus the L2 penalty's, as a tensor of its own.
at::Tensor penalised_gradient(const Update& update, const UpdatedTensors& tensors, double l2);

/// Throws a usage Error unless lower <= value < upper.
void require_option(double value, double lower, double upper, const char* name);

}  // namespace accrue::optim
