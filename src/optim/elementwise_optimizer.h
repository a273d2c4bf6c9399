#pragma once

#include <string>
#include <vector>

#include "groups.h"

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
  at::Tensor gradient;
  std::vector<at::Tensor> state;  ///< in order of the optimizer's state names
};

/// An optimizer whose update of an element depends on that element alone: all that optimizers have
/// in common but the formula, which subclasses give twice: vectorised over a range of contiguous
/// CPU memory, and in ATen for any other tensor.
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

/// Null where the optimizer keeps no such state.
template <class T>
T* state_data(const UpdatedTensors& tensors, std::size_t index) {
  return index < tensors.state.size() ? tensors.state[index].data_ptr<T>() : nullptr;
}

/// The mean gradient plus the L2 penalty's, as a tensor of its own.
at::Tensor penalised_gradient(const Update& update, const UpdatedTensors& tensors, double l2);

/// Throws a usage Error unless lower <= value < upper.
void require_option(double value, double lower, double upper, const char* name);

}  // namespace accrue::optim
