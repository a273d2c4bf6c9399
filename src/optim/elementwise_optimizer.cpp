#include "elementwise_optimizer.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <sstream>

#include "accrue/core/error.h"

namespace accrue::optim {
namespace {

/// Large enough that a chunk's start costs nothing, small enough to share a small model.
constexpr std::size_t kChunkElements = std::size_t{1} << 15;

constexpr const char* kStepName = "step";

bool is_flat_on_cpu(const UpdatedTensors& tensors) {
  return tensors.parameter.is_cpu() && tensors.parameter.is_contiguous();
}

[[noreturn]] void refuse_state(const std::string& expected, const std::string& received) {
  throw usage_error("load optimizer state", expected, received,
                    "the state of the same optimizer over the same model");
}

std::string description(const at::Tensor& tensor) {
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << ' ' << tensor.sizes();
  return text.str();
}

void require_fit(const std::string& name, const at::Tensor& tensor, const at::Tensor& expected) {
  if (!tensor.defined()) refuse_state(name + " as " + description(expected), "nothing");
  if (tensor.sizes() != expected.sizes() || tensor.scalar_type() != expected.scalar_type())
    refuse_state(name + " as " + description(expected), description(tensor));
}

}  // namespace

ElementwiseOptimizer::ElementwiseOptimizer(std::vector<Trained> trained,
                                           std::vector<std::string> state_names)
    : trained_(std::move(trained)), state_names_(std::move(state_names)) {
  for (const Trained& entry : trained_) {
    const at::Tensor& tensor = entry.parameter.tensor;
    std::vector<at::Tensor>& state = state_.emplace_back();
    for (std::size_t i = 0; i < state_names_.size(); ++i)
      state.push_back(at::zeros(tensor.sizes(), tensor.options().requires_grad(false)));
  }
}

void ElementwiseOptimizer::step(accum::MeanGradient&& gradient, double lr) {
  if (!(std::isfinite(lr) && lr >= 0))
    throw usage_error("optimizer step", "a learning rate that is finite and not negative",
                      std::to_string(lr), "checking the schedule");
  const accum::MeanGradient consumed = std::move(gradient);
  std::vector<Task> tasks = tasks_for(consumed, lr);
  ++steps_;
  run(tasks);
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
    // Frozen since: left alone, as torch.optim does, without decay and momentum.
    if (!trained.parameter.tensor.requires_grad()) continue;
    tasks.push_back({{.gradient_scale = gradient.scale(),
                      .lr = lr * trained.lr_factor,
                      .weight_decay = trained.weight_decay,
                      .step = steps_ + 1},
                     {trained.parameter.tensor, found->second, state_[i]}});
  }
  if (gradients.size() != trained_.size())
    throw usage_error("optimizer step",
                      "gradients of " + std::to_string(trained_.size()) + " parameters",
                      std::to_string(gradients.size()),
                      "one list of parameters for the window and its optimizer");
  return tasks;
}

void ElementwiseOptimizer::run(std::vector<Task>& tasks) const {
  const at::NoGradGuard no_grad;
  std::vector<const Task*> flat;
  for (Task& task : tasks) {
    if (is_flat_on_cpu(task.tensors))
      flat.push_back(&task);
    else
      update_whole(task.update, task.tensors);
  }
  run_in_chunks(flat);
  // Raw pointers wrote: low-precision copies and autograd's checks learn of it by the version.
  for (const Task* task : flat) torch::autograd::impl::bump_version(task->tensors.parameter);
}

void ElementwiseOptimizer::run_in_chunks(const std::vector<const Task*>& tasks) const {
  struct Chunk {
    const Task* task;
    std::size_t begin, end;
  };
  std::vector<Chunk> chunks;
  for (const Task* task : tasks) {
    const auto size = static_cast<std::size_t>(task->tensors.parameter.numel());
    for (std::size_t begin = 0; begin < size; begin += kChunkElements)
      chunks.push_back({task, begin, std::min(begin + kChunkElements, size)});
  }
  at::parallel_for(
      0, static_cast<std::int64_t>(chunks.size()), 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
          const Chunk& chunk = chunks[static_cast<std::size_t>(i)];
          update_range(chunk.task->update, chunk.task->tensors, chunk.begin, chunk.end);
        }
      });
}

NamedParameters ElementwiseOptimizer::state() const {
  NamedParameters result{{kStepName, at::scalar_tensor(steps_, at::kLong)}};
  for (std::size_t kind = 0; kind < state_names_.size(); ++kind)
    for (std::size_t i = 0; i < trained_.size(); ++i)
      result.push_back({state_names_[kind] + "." + trained_[i].parameter.name, state_[i][kind]});
  return result;
}

void ElementwiseOptimizer::load_state(const NamedParameters& given) {
  const NamedParameters own = state();
  std::unordered_map<std::string, at::Tensor> given_by_name;
  for (const auto& [name, tensor] : given)
    if (!given_by_name.emplace(name, tensor).second)
      refuse_state("each tensor once", name + " twice");
  for (const auto& [name, tensor] : own) {
    const auto found = given_by_name.find(name);
    if (found == given_by_name.end()) refuse_state("the tensor " + name, "none of that name");
    require_fit(name, found->second, tensor);
  }
  if (given_by_name.size() != own.size())
    for (const auto& [name, tensor] : given)
      if (std::none_of(own.begin(), own.end(), [&](const auto& mine) { return mine.name == name; }))
        refuse_state("no tensor but this optimizer's", name);
  const auto steps = given_by_name.at(kStepName).item<std::int64_t>();
  if (steps < 0) refuse_state("a step count of 0 or more", std::to_string(steps));

  const at::NoGradGuard no_grad;
  steps_ = steps;
  for (const auto& [name, tensor] : own)
    if (name != kStepName) tensor.copy_(given_by_name.at(name));
}

std::int64_t ElementwiseOptimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& tensors : state_)
    for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

at::Tensor penalised_gradient(const Update& update, const UpdatedTensors& tensors, double l2) {
  const at::Tensor& values = tensors.gradient.tensor;
  at::Tensor gradient =
      values.defined() ? values * update.gradient_scale
                       : tensors.gradient.scaled_copy(update.gradient_scale, tensors.parameter);
  return l2 == 0 ? gradient : gradient.add_(tensors.parameter, l2);
}

void require_option(double value, double lower, double upper, const char* name) {
  if (value >= lower && value < upper) return;
  std::ostringstream expected, received;
  expected << name << " in [" << lower << ", " << upper << ')';
  received << value;
  throw usage_error("make optimizer", expected.str(), received.str(), "its default");
}

}  // namespace accrue::optim
