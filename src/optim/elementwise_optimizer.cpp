#include "optim/elementwise_optimizer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "accrue/core/error.h"
#include "accrue/memory/offload_passes.h"
#include "core/kernel_span.h"
#include "kernels/backend.h"
#include "optim/parallel_ranges.h"
#include "optim/state_pieces.h"

namespace accrue::optim {
namespace {

/// The bytes of one step's part of an offloaded state; two such parts are in memory at a time.
constexpr std::size_t kOffloadedGroupBytes = std::size_t{64} << 20;

bool is_for_passes(const UpdatedTensors& tensors) {
  return kernels::passes_over_memory(tensors.parameter) && tensors.parameter.is_contiguous();
}

bool is_plain(const UpdatedTensors& tensors) {
  return tensors.gradient.tensor.defined() && all_plain(tensors.state);
}

}  // namespace

ElementwiseOptimizer::ElementwiseOptimizer(std::vector<Trained> trained,
                                           std::vector<StateKind> kinds, const StateOptions& state)
    : slice_(state.slice),
      trained_(slice_of(std::move(trained), state.slice)),
      state_(trained_, std::move(kinds), state) {}

std::vector<StateRange> ElementwiseOptimizer::ranges() const {
  return slice_ == RankSlice{} ? std::vector<StateRange>{} : state_.ranges();
}

void ElementwiseOptimizer::step(accum::MeanGradient&& gradient, double lr) {
  if (!(std::isfinite(lr) && lr >= 0))
    throw usage_error("optimizer step", "a learning rate that is finite and not negative",
                      std::to_string(lr), "checking the schedule");
  require_part(gradient);
  const accum::MeanGradient consumed = std::move(gradient);
  std::vector<Task> tasks = tasks_for(consumed, lr);
  run(tasks);
  state_.count_step();
}

void ElementwiseOptimizer::require_part(const accum::MeanGradient& gradient) const {
  if (gradient.shard() == nullptr || gradient.shard()->slice() == slice_) return;
  const auto text = [](const RankSlice& slice) {
    return "slice " + std::to_string(slice.rank) + " of " + std::to_string(slice.world);
  };
  throw usage_error("optimizer step", "the gradient of " + text(slice_),
                    "that of " + text(gradient.shard()->slice()),
                    "one division for the window and its optimizer");
}

std::vector<WrittenState> ElementwiseOptimizer::written_states(std::size_t parameter) const {
  std::vector<WrittenState> states;
  for (const KeptState& kept : state_.of(parameter))
    states.push_back({&kept, state_.rounding(parameter, states.size(), 0)});
  return states;
}

std::vector<ElementwiseOptimizer::Task> ElementwiseOptimizer::tasks_for(
    const accum::MeanGradient& gradient, double lr) const {
  std::unordered_map<const at::TensorImpl*, accum::GradientSource> gradients;
  for (std::size_t i = 0; i < gradient.buffer().entries().size(); ++i)
    gradients.emplace(gradient.buffer().entries()[i].parameter.unsafeGetTensorImpl(),
                      gradient.source(i));
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const Trained& trained = trained_[i];
    const auto found = gradients.find(trained.parameter.tensor.unsafeGetTensorImpl());
    if (found == gradients.end())
      throw usage_error("optimizer step", "a gradient of " + trained.parameter.name, "none",
                        "one list of parameters for the window and its optimizer");
    // A parameter that was frozen later is not changed, as in torch.optim, without decay and
    // momentum.
    if (!trained.parameter.tensor.requires_grad()) continue;
    const accum::GradientSource& whole = found->second;
    tasks.push_back({{.gradient_scale = gradient.scale(),
                      .lr = group_rate(trained.lr_factor, lr, fall_),
                      .weight_decay = trained.weight_decay,
                      .step = state_.steps() + 1},
                     {trained.stepped(), trained.range ? whole.part(*trained.range) : whole,
                      written_states(i)}});
  }
  if (gradients.size() != trained_.size())
    throw usage_error("optimizer step",
                      "gradients of " + std::to_string(trained_.size()) + " parameters",
                      std::to_string(gradients.size()),
                      "one list of parameters for the window and its optimizer");
  return tasks;
}

std::vector<at::Tensor> ElementwiseOptimizer::touched_by(const std::vector<Task>& tasks) {
  std::vector<at::Tensor> touched;
  for (const Task& task : tasks) {
    touched.push_back(task.tensors.parameter);
    touched.push_back(task.tensors.gradient.tensor);
    for (const WrittenState& state : task.tensors.state) {
      touched.push_back(state.kept->values());
      touched.push_back(state.kept->scales());
    }
  }
  return touched;
}

void ElementwiseOptimizer::run(std::vector<Task>& tasks) const {
  RECORD_FUNCTION("accrue::optimizer_update", span_of(touched_by(tasks)));
  const at::NoGradGuard no_grad;
  std::vector<const Task*> flat;
  std::vector<Task*> plain;
  for (Task& task : tasks) {
    if (is_for_passes(task.tensors))
      flat.push_back(&task);
    else if (is_plain(task.tensors))
      plain.push_back(&task);
    else
      run_whole({&task});  // one at a time: it needs copies of the parameter's size
  }
  run_whole(plain);
  const std::vector<std::vector<TaskRange>> groups = groups_of(flat);
  memory::for_parts(
      groups.size(),
      [&](std::size_t group) {
        std::vector<at::Tensor> touched;
        for (const TaskRange& range : groups[group])
          for (at::Tensor& tensor : touched_in(*flat[range.task], range.begin, range.end))
            touched.push_back(std::move(tensor));
        return touched;
      },
      [&](std::size_t group) {
        RECORD_USER_SCOPE("optimizer: piece");
        for_ranges(groups[group], [&](std::size_t task, std::size_t begin, std::size_t end) {
          update_range(flat[task]->update, flat[task]->tensors, begin, end);
        });
      });
  // Reports the writes through raw pointers to low-precision copies and autograd's checks.
  for (const Task* task : flat) torch::autograd::impl::bump_version(task->tensors.parameter);
}

/// State in memory does not count: without offloaded tasks, all are one group.
std::vector<std::vector<TaskRange>> ElementwiseOptimizer::groups_of(
    const std::vector<const Task*>& tasks) {
  std::vector<TaskSize> sizes;
  for (const Task* task : tasks) {
    const auto elements = static_cast<std::size_t>(task->tensors.parameter.numel());
    TaskSize& size = sizes.emplace_back(TaskSize{.elements = elements, .bytes = 0});
    if (!memory::is_offloaded(task->tensors.parameter)) continue;
    for (const at::Tensor& tensor : touched_in(*task, 0, elements)) size.bytes += tensor.nbytes();
  }
  return state_pieces(sizes, kOffloadedGroupBytes);
}

std::vector<at::Tensor> ElementwiseOptimizer::touched_in(const Task& task, std::size_t begin,
                                                         std::size_t end) {
  const ElementRange range{.begin = static_cast<std::int64_t>(begin),
                           .elements = static_cast<std::int64_t>(end - begin)};
  std::vector<at::Tensor> touched = task.tensors.gradient.memory_of(range);
  touched.push_back(task.tensors.parameter.view({-1}).narrow(0, range.begin, range.elements));
  for (const WrittenState& state : task.tensors.state)
    for (at::Tensor& tensor : state.kept->memory_of(range)) touched.push_back(std::move(tensor));
  return touched;
}

void ElementwiseOptimizer::run_whole(const std::vector<Task*>& tasks) const {
  std::vector<WholeUpdate> wholes;
  for (const Task* task : tasks) {
    const accum::GradientSource& sum = task->tensors.gradient;
    const at::Tensor& parameter = task->tensors.parameter;
    WholeUpdate& whole = wholes.emplace_back();
    whole = {.update = task->update,
             .parameter = parameter,
             .gradient = sum.tensor.defined() ? sum.tensor : sum.scaled_copy(1, parameter),
             .state = {}};
    for (const WrittenState& written : task->tensors.state)
      whole.state.push_back(written.kept->whole());
  }
  update_together(wholes);
  for (std::size_t i = 0; i < tasks.size(); ++i)
    for (std::size_t kind = 0; kind < wholes[i].state.size(); ++kind) {
      const WrittenState& written = tasks[i]->tensors.state[kind];
      written.kept->assign(wholes[i].state[kind], written.rounding);
    }
}

at::Tensor penalised_gradient(const WholeUpdate& whole, double l2) {
  at::Tensor gradient = whole.gradient * whole.update.gradient_scale;
  return l2 == 0 ? gradient : gradient.add_(whole.parameter, l2);
}

void require_option(double value, double lower, double upper, const char* name) {
  if (value >= lower && value < upper) return;
  std::ostringstream expected, received;
  expected << name << " in [" << lower << ", " << upper << ')';
  received << value;
  throw usage_error("make optimizer", expected.str(), received.str(), "its default");
}

void require_eps(double eps) {
  constexpr double kLeast = std::numeric_limits<float>::min();
  if (eps >= kLeast && std::isfinite(eps)) return;
  std::ostringstream expected, received;
  expected << "eps in [" << kLeast << ", inf), as an update of what has no gradient is 0 / eps";
  received << eps;
  throw usage_error("make optimizer", expected.str(), received.str(), "its default");
}

}  // namespace accrue::optim
