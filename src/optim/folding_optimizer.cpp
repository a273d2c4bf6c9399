#include "optim/folding_optimizer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"
#include "kernels/backend.h"
#include "optim/parallel_ranges.h"

namespace accrue::optim {
namespace {

void require_flat(const char* name, const NamedParameter& parameter) {
  if (parameter.tensor.is_contiguous()) return;
  throw usage_error(std::string("make ") + name, "contiguous parameters",
                    "'" + parameter.name + "', which is not one",
                    "an optimizer with a gradient buffer");
}

WholeFold whole_of(const at::Tensor& parameter, const at::Tensor& contribution,
                   const std::vector<WrittenState>& states) {
  WholeFold whole{.parameter = parameter, .contribution = contribution, .state = {}};
  for (const WrittenState& written : states) whole.state.push_back(written.kept->whole());
  return whole;
}

void keep(const WholeFold& whole, const std::vector<WrittenState>& states) {
  for (std::size_t i = 0; i < states.size(); ++i)
    states[i].kept->assign(whole.state[i], states[i].rounding);
}

}  // namespace

/// A window's buffer may outlive the optimizer: this records whether it still exists.
class FoldingOptimizer::Target final : public accum::FoldTarget {
 public:
  Target(FoldingOptimizer& owner, bool takes_parts) : owner_(&owner), takes_parts_(takes_parts) {}
  void forget_owner() { owner_ = nullptr; }

  bool takes(const at::Tensor& parameter) const override {
    return owner_ != nullptr && owner_->takes(parameter);
  }
  bool takes_parts() const override { return takes_parts_; }
  void fold(const at::Tensor& parameter, const at::Tensor& contribution, double scale) override {
    if (owner_ == nullptr)
      throw usage_error("fold a gradient into the optimizer", "an optimizer", "one that is gone",
                        "keeping it as long as its windows");
    owner_->fold(parameter, contribution, scale);
  }
  bool is_between_steps() const override { return owner_ != nullptr && owner_->is_between_steps(); }

 private:
  FoldingOptimizer* owner_;
  bool takes_parts_;
};

/// A parameter's step.
struct FoldingOptimizer::Task {
  at::Tensor parameter;
  FoldUpdate update;
  std::vector<WrittenState> states;
};

FoldingOptimizer::FoldingOptimizer(const char* name, std::vector<Trained> trained,
                                   std::vector<StateKind> kinds, const StateOptions& state,
                                   bool takes_parts)
    : name_(name),
      trained_(std::move(trained)),
      folded_(trained_.size(), 0),
      state_(trained_, std::move(kinds), state),
      target_(std::make_shared<Target>(*this, takes_parts)) {
  if (state.slice != RankSlice{})
    throw usage_error(std::string("make ") + name, "an optimizer of all", "one of a rank's slice",
                      "an optimizer that takes sums of gradients, which ranks can divide");
  if (state.precision == StatePrecision::int8)
    throw usage_error(std::string("make ") + name, "a state in fp32 or bf16", "int8",
                      "bf16: 8-bit codes are rounded to nearest, which loses the small change "
                      "that one micro-batch of many makes");
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    require_flat(name, trained_[i].parameter);
    places_.emplace(trained_[i].parameter.tensor.unsafeGetTensorImpl(), i);
  }
}

FoldingOptimizer::~FoldingOptimizer() { target_->forget_owner(); }

std::shared_ptr<accum::FoldTarget> FoldingOptimizer::fold_target() { return target_; }

bool FoldingOptimizer::takes(const at::Tensor& parameter) const {
  return places_.contains(parameter.unsafeGetTensorImpl());
}

bool FoldingOptimizer::is_between_steps() const {
  return std::ranges::any_of(folded_, [](std::uint32_t times) { return times > 0; });
}

void FoldingOptimizer::forget_window() { std::ranges::fill(folded_, 0); }

std::vector<WrittenState> FoldingOptimizer::written_states(std::size_t parameter) const {
  std::vector<WrittenState> states;
  for (const KeptState& kept : state_.of(parameter))
    states.push_back({&kept, state_.rounding(parameter, states.size(), folded_[parameter])});
  return states;
}

void FoldingOptimizer::fold(const at::Tensor& parameter, const at::Tensor& contribution,
                            double scale) {
  const std::size_t place = places_.at(parameter.unsafeGetTensorImpl());
  const Trained& trained = trained_[place];
  const FoldUpdate update{.weight_decay = trained.weight_decay,
                          .gradient_scale = scale,
                          .first = folded_[place] == 0,
                          .step = state_.steps() + 1};
  const at::Tensor& tensor = trained.parameter.tensor;
  const std::vector<WrittenState> states = written_states(place);
  kernels::in_form_of(
      tensor,
      [&] {
        for_ranges({static_cast<std::size_t>(contribution.numel())},
                   [&](std::size_t, std::size_t begin, std::size_t end) {
                     fold_range(update, tensor, contribution, states, begin, end);
                   });
      },
      [&] {
        const at::NoGradGuard no_grad;
        const WholeFold whole = whole_of(tensor, contribution, states);
        fold_whole(update, whole);
        keep(whole, states);
      });
  ++folded_[place];
}

void FoldingOptimizer::require_own(const accum::MeanGradient& gradient) const {
  const bool own = gradient.buffer().folds_into(*target_) &&
                   gradient.buffer().entries().size() == trained_.size();
  if (own) return;
  throw usage_error(std::string(name_) + " step",
                    "the gradient of a window that folded into this optimizer", "another",
                    "a GradientBuffer made with its fold_target() and the same parameters");
}

void FoldingOptimizer::step(accum::MeanGradient&& gradient, double lr) {
  if (!(std::isfinite(lr) && lr >= 0))
    throw usage_error("optimizer step", "a learning rate that is finite and not negative",
                      std::to_string(lr), "checking the schedule");
  const accum::MeanGradient consumed = std::move(gradient);
  require_own(consumed);
  const at::NoGradGuard no_grad;
  std::vector<Task> in_memory;
  for (Task& task : tasks_for(lr)) {
    if (kernels::passes_over_memory(task.parameter)) {
      in_memory.push_back(std::move(task));
      continue;
    }
    const WholeFold whole = whole_of(task.parameter, {}, task.states);
    step_whole(task.update, whole);
    // Gradients that were already folded keep their rounding.
    if (task.update.first) keep(whole, task.states);
  }
  run_in_memory(in_memory);
  state_.count_step();
  forget_window();
}

std::vector<FoldingOptimizer::Task> FoldingOptimizer::tasks_for(double lr) const {
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const Trained& trained = trained_[i];
    if (!trained.parameter.tensor.requires_grad()) continue;  // frozen since
    tasks.push_back({trained.parameter.tensor,
                     {.weight_decay = trained.weight_decay,
                      .lr = group_rate(trained.lr_factor, lr, fall_),
                      .first = folded_[i] == 0,
                      .step = state_.steps() + 1},
                     written_states(i)});
  }
  return tasks;
}

void FoldingOptimizer::run_in_memory(const std::vector<Task>& tasks) const {
  std::vector<std::size_t> sizes;
  for (const Task& task : tasks) sizes.push_back(static_cast<std::size_t>(task.parameter.numel()));
  for_ranges(sizes, [&](std::size_t task, std::size_t begin, std::size_t end) {
    step_range(tasks[task].update, tasks[task].parameter, tasks[task].states, begin, end);
  });
  // Reports the writes through raw pointers to low-precision copies and autograd's checks.
  for (const Task& task : tasks) torch::autograd::impl::bump_version(task.parameter);
}

NamedParameters FoldingOptimizer::state() const {
  if (is_between_steps())
    throw runtime_error(std::string(name_) + " state", "an optimizer between two windows",
                        "one whose moments hold part of a window",
                        "the last checkpoint, or state() after the step");
  return state_.tensors();
}

void FoldingOptimizer::load_state(const StoredTensors& state) {
  state_.load(state);
  forget_window();
}

}  // namespace accrue::optim
